"""Settings that were tried beside each other: those of the training and those of what it learned from."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest
from pipeline_tasks.datasets import EVALUATIONS, RANK_LISTS
from pipeline_tasks.report.content import DESK, PHONE
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections.settings import Tried, drawn, settings_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import rows_of, trained
from tests.stores import put

SCORES = {("4", "uniform"): 0.1, ("9", "uniform"): 0.2, ("4", "doubling"): 0.3, ("9", "doubling"): 0.25}


class Cut(StepParams):
    """How rankings are cut."""

    m: int = 4
    strategy: str = "uniform"
    k: int = 1000


class Trained(StepParams):
    """What is made small."""

    objective: dict[str, Any] = {"name": "list_net", "alpha": 1.0}
    seed: int = 0
    batch_size: int = 16


@step(reads={}, writes=RANK_LISTS, kind="reduce")
def toy_lists(inputs: Inputs, params: Cut, run: Run) -> pa.Table:
    """No list at all."""
    return RANK_LISTS.table()


@step(reads={"lists": RANK_LISTS}, writes=None, kind="reduce", dataset="model/22m/corpus")
def toy_adapt(inputs: Inputs, params: Trained, run: Run) -> Path:
    """A model of one file."""
    (run.scratch / "model").mkdir()
    (run.scratch / "model" / "weights").write_text(f"{params.seed} {inputs['lists'].manifest.ref}")
    return run.scratch / "model"


def adapted(store: LocalStore, seed: int = 0, alpha: float = 1.0, **cut: object) -> str:
    lists = run_job(store, plan(store, toy_lists, cut)).ref
    values = {"seed": seed, "objective": {"name": "list_net", "alpha": alpha}}
    return str(run_job(store, plan(store, toy_adapt, values, {"lists": [str(lists)]})).ref)


def evaluated(store: LocalStore, models: dict[str, float]) -> Any:
    systems = {f"22m/corpus@{ref.partition('@')[2]}": (gain, ref) for ref, gain in models.items()}
    rows = rows_of({"all-minilm-l6-v2": (0.05, ""), **systems}, 8)
    return put(store, EVALUATIONS, rows, dataset="eval/judged", **{f"m{i}": ref for i, ref in enumerate(models)})


def test_each_setting_has_its_score_the_best_first(tmp_path):
    store = LocalStore(tmp_path / "store")
    models = {adapted(store, m=m, strategy=s): SCORES[m, s] for m, s in product(("4", "9"), ("uniform", "doubling"))}
    evaluated(store, models)
    (section,) = [s for _, of in run_report(store).groups for s in of if s.title == "Settings tried on judged"]
    assert section.table.head == ("m", "strategy", "average NDCG@10", "version"), "k and the objective are all the same"
    assert [row[:3] for row in section.table.rows] == [
        (*setting, f"{0.27 + score:.3f}") for setting, score in sorted(SCORES.items(), key=lambda one: -one[1])
    ]


def test_a_part_of_an_objective_is_a_setting_and_a_seed_is_none(tmp_path):
    store = LocalStore(tmp_path / "store")
    two = {adapted(store, seed, alpha): 0.1 for seed, alpha in ((0, 1.0), (1, 1.0), (0, 2.0))}
    three = two | {adapted(store, 0, 20.0): 0.2}
    ref = evaluated(store, two)
    with lineage(store) as ask:
        scores = read(ask, str(ref))
        assert settings_section(ask, scores, list(scores.models)[1]) is None, "two settings, of which one has two seeds"
    ref = evaluated(store, three)
    with lineage(store) as ask:
        scores = read(ask, str(ref))
        section = settings_section(ask, scores, next(name for name, model in scores.models.items() if model))
    assert [row[:2] for row in section.table.rows] == [
        ("20.0", "0.470"), ("1.0", "0.370"), ("1.0", "0.370"), ("2.0", "0.370")
    ]  # fmt: skip
    assert section.table.head[0] == "objective.alpha"


def test_iterations_of_one_training_are_no_settings_beside_each_other(tmp_path):
    store = LocalStore(tmp_path / "store")

    def iterations(rate: str) -> list[str]:
        refs = []
        for alpha in ("0.65", "0.75", "0.85"):
            begun = {"init": Ref.parse(refs[-1])} if refs else {}
            made = put(store, RANK_LISTS, [{"list_id": f"{rate} {alpha}"}], dataset="model/22m/corpus", **begun)
            manifest = load_manifest(store, made).model_copy(
                update={"params": {"alpha": alpha, "learning_rate": rate}, "id": f"{rate}{alpha[2:]}".zfill(16)}
            )
            commit(store, manifest)
            refs.append(str(manifest.ref))
        return refs

    def section_of(*models: str):
        ref = evaluated(store, dict.fromkeys(models, 0.1))
        with lineage(store) as ask:
            scores = read(ask, str(ref))
            return settings_section(ask, scores, next(name for name, model in scores.models.items() if model))

    first, second, third = (iterations(rate) for rate in ("1", "2", "3"))
    assert section_of(*first) is None, "0.65, 0.75 and 0.85 are one training"
    section = section_of(*first, *second, *third)
    assert (section.table.head[0], {row[0] for row in section.table.rows}) == ("learning_rate", {"1", "2", "3"})
    assert len(section.table.rows) == 3, "the last of each"


def test_what_a_training_from_a_mean_went_on_from_is_no_setting_beside_it(tmp_path):
    store = LocalStore(tmp_path / "store")
    first, second = (trained(store, "corpus", {"learning_rate": rate}) for rate in ("1", "2"))
    mean = trained(store, "average", models=[first, second])
    after = [trained(store, "corpus", {"learning_rate": rate}, init=[mean]) for rate in ("3", "4", "5")]
    ref = evaluated(store, dict.fromkeys([first, second, *after], 0.1))
    with lineage(store) as ask:
        section = settings_section(ask, scores := read(ask, str(ref)), scores.called(after[0]))
    assert {row[0] for row in section.table.rows} == {"3", "4", "5"}


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_line_joins_the_means_of_a_value_one_for_each_word(width):
    tried = [Tried("a", {"m": m, "alpha": a, "strategy": s}, score + float(a) / 1000)
             for (m, s), score in SCORES.items() for a in ("1", "20")]  # fmt: skip
    figure = drawn(tried, ["m", "alpha"], "strategy", 0.15, width)
    by_m, by_alpha = figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in by_m.lines if line.get_linestyle() == "-"}
    assert lines == {
        "doubling": [[4, pytest.approx(0.3105)], [9, pytest.approx(0.2605)]],
        "uniform": [[4, pytest.approx(0.1105)], [9, pytest.approx(0.2105)]],
    }
    assert (by_m.get_xscale(), by_alpha.get_xscale()) == ("linear", "log")
    right_edges = [panel.get_window_extent().x1 for panel in figure.axes]
    assert max(right_edges) < width
