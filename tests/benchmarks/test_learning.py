"""What ``learning.py`` keeps, which negatives it gives a pair, and what a teacher makes of them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline_tasks.encoders.layout import Layout

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PASSAGES = {"a": "sandbags", "b": "levees", "c": "shelters", "d": "of a judged document"}
VECTORS = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0.9, 0.436]], np.float32)
ASKED = np.array([[1, 0], [0, 1], [1, 0]], np.float32)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import learning_stages

    return learning_stages


@pytest.fixture
def planted(stages: ModuleType) -> tuple[Any, Any]:
    """Three pairs of two queries, one of which two passages answer; systems that rank in opposite orders."""
    from judged_sets import JudgedSet, Pair, Query

    dry, bed = "what holds water back?", "where to sleep?"
    pairs = [Pair(dry, "a"), Pair(bed, "c"), Pair(dry, "b")]
    data = JudgedSet(PASSAGES, [Query("judged", "qa", "dev", {"d": 2})], pairs)
    ranked = np.argsort(-(ASKED @ VECTORS.T), axis=1)
    rankings = {"bm25": ranked[:, ::-1], "encoder": ranked}
    return data, stages.References({}, rankings, {"encoder": {"passages": VECTORS, "pairs": ASKED}})


def test_what_was_made_is_not_made_again_and_what_failed_leaves_nothing(stages: ModuleType, tmp_path: Path):
    path = tmp_path / "of" / "a.npz"
    with pytest.raises(ZeroDivisionError):
        stages.load_or_make(path, lambda: {"ranked": np.array([1 // 0])})
    assert not list(tmp_path.iterdir())
    for made in (3, 4):
        assert stages.load_or_make(path, lambda made=made: {"ranked": np.array([made])})["ranked"].tolist() == [3]


def test_a_training_that_was_stopped_goes_on_where_its_checkpoints_are(
    monkeypatch: pytest.MonkeyPatch, stages: ModuleType, planted: tuple[Any, Any], tmp_path: Path
):
    seen = []

    def stopped(rows: Any, dev: Any, start: Path, params: Any, work: Path, **_: Any) -> None:
        seen.append([path.name for path in work.glob("*")])
        work.mkdir(parents=True, exist_ok=True)
        (work / "step-00000010.pt").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "train", stopped)
    bench = stages.Bench(*planted, stages.Recipe("22m", "fp32", "rrf", {}, {}), tmp_path)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            bench.stage("negatives", 0, "views")
    assert seen == [[], ["step-00000010.pt"]]


def test_no_negative_answers_the_query_or_is_of_a_judged_document(stages: ModuleType, planted: tuple[Any, Any]):
    assert stages.negatives(*planted, 9) == [["c"], ["b", "a"], ["c"]]


def test_a_model_of_fewer_negatives_lies_apart(stages: ModuleType, planted: tuple[Any, Any], tmp_path: Path):
    assert stages.negatives(*planted, 1) == [["c"], ["b"], ["c"]]
    recipes = [stages.Recipe("22m", "fp32", "rrf", {}, {}, n) for n in (1, 9)]
    few, nine = (stages.Bench(*planted, recipe, tmp_path) for recipe in recipes)
    assert few.of_stage("pairs", 0) == nine.of_stage("pairs", 0)
    for name in ("negatives", "distilled", "taught alone"):
        assert few.of_stage(name, 0, "pairs") != nine.of_stage(name, 0, "pairs")


def test_agreement_chooses_positives_of_training_documents_or_none(stages: ModuleType, planted: tuple[Any, Any]):
    data, systems = planted
    both = {"encoder": systems.pairs["encoder"], "other": np.array([[0, 1, 3, 2], [3, 0, 1, 2], [0, 2, 3, 1]])}
    found = stages.References({}, both, {name: {} for name in both})
    assert stages.positives_by(data, found, "none") == ["a", "c", "b"]
    assert stages.positives_by(data, found, "mutual") == ["a", "b", "a"]
    assert stages.positives_by(data, found, "consistency") == ["a", "c", "b"]
    other_first = stages.References({}, both, {name: {} for name in reversed(both)})
    assert stages.positives_by(data, other_first, "consistency") == ["a", None, None]
    rows = stages.training_set(data, stages.STAGES["consistent"], other_first, stages.Recipe("22m", "fp32", "", {}, {}))
    assert [block.num_rows for block in rows.blocks()] == [1]


def test_difficulties_rise_over_trainings_each_from_the_one_before(
    monkeypatch: pytest.MonkeyPatch, stages: ModuleType, planted: tuple[Any, Any], tmp_path: Path
):
    seen, stopped_at = [], 2
    original = stages.negatives

    def mined(data: Any, found: Any, n: int, alpha: float) -> list[list[str]]:
        seen.append(alpha)
        return original(data, found, n, alpha)

    def trained(rows: Any, dev: Any, start: Path, params: Any, work: Path, **_: Any) -> SimpleNamespace:
        seen.append(start.name)
        if len(seen) > 2 * stopped_at:
            raise KeyboardInterrupt
        return SimpleNamespace(encoder=None)

    monkeypatch.setattr(stages, "negatives", mined)
    monkeypatch.setattr(stages, "train", trained)
    monkeypatch.setattr(stages, "layout_of", lambda start: Layout("mean", 192))
    monkeypatch.setattr(stages, "export", lambda encoder, out, **_: out.mkdir(parents=True))
    bench = stages.Bench(*planted, stages.Recipe("22m", "fp32", "rrf", {}, {}), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        bench.stage("rising", 0, "pairs")
    assert seen == [0.65, bench.of_stage("pairs", 0).name, 0.75, "model-1", 0.85, "model-2"]
    del seen[:]
    stopped_at = 0
    with pytest.raises(KeyboardInterrupt):
        bench.stage("rising", 0, "pairs")
    assert seen == [0.85, "model-2"]


def test_a_teacher_scores_the_source_first_and_then_each_negative(stages: ModuleType, planted: tuple[Any, Any]):
    mined = stages.negatives(*planted, 9)
    of_one = stages.taught(planted[0], mined, planted[1], "encoder")
    assert [np.round(row, 2).tolist() for row in of_one] == [[1.0, 0.6], [0.8, 0.6, 0.0], [0.8, 0.6]]
    of_all = stages.taught(planted[0], mined, planted[1], "rrf")
    assert [len(row) for row in of_all] == [2, 3, 2]
    assert of_all[1][0] == pytest.approx(1 / 61 + 1 / 64)


def test_a_stage_with_negatives_goes_on_from_the_best_without_on_development_queries(
    monkeypatch: pytest.MonkeyPatch, planted: tuple[Any, Any]
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from learning import PLAIN, before

    bench = SimpleNamespace(data=planted[0])
    best, worst = np.array([[3, 2, 1, 0]]), np.array([[0, 1, 2, 3]])
    found = {PLAIN: best, "pairs": worst, "views": best, "negatives": best}
    assert before(bench, "distilled", found) == "views"
    assert before(bench, "views", found) == before(bench, "distilled", {PLAIN: best}) == ""


def test_stages_with_mined_negatives_may_have_hyperparameters_of_their_own(stages: ModuleType):
    recipe = stages.Recipe("33m", "fp32", "rrf", {"epochs": 4, "batch_size": 8}, {"epochs": 1})
    given = {name: recipe.params(stage, 0) for name, stage in stages.STAGES.items()}
    assert {name: (of.epochs, of.batch_size) for name, of in given.items() if name in ("views", "distilled")} == {
        "views": (4, 8),
        "distilled": (1, 8),
    }


def test_what_is_lost_elsewhere_is_the_mean_over_a_stages_models_less_the_start(
    monkeypatch: pytest.MonkeyPatch, planted: tuple[Any, Any]
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from judged_sets import JudgedSet, Query
    from learning import lost

    other = JudgedSet(PASSAGES, [Query("judged", "qa", "test", {"a": 1})], [])
    seeds = Path("first"), Path("second")
    ranked = {None: np.array([[0, 1, 2, 3]]), seeds[0]: np.array([[0, 1, 2, 3]]), seeds[1]: np.array([[1, 2, 3, 0]])}

    def elsewhere(name: str, data: Any, model: Path | None = None) -> np.ndarray:
        assert (name, data) == ("of another", other)
        return ranked[model]

    bench = SimpleNamespace(data=planted[0], elsewhere=elsewhere)
    of_second = 1 / np.log2(5)
    found = lost(bench, {"pairs": seeds, "all seeds of pairs": seeds[1:]}, "of another", other)
    assert found == {
        "pairs": pytest.approx((1 + of_second) / 2 - 1),
        "all seeds of pairs": pytest.approx(of_second - 1),
    }


def test_a_mean_over_seeds_is_of_every_seeds_model_of_each_of_its_stages(
    monkeypatch: pytest.MonkeyPatch, stages: ModuleType, planted: tuple[Any, Any], tmp_path: Path
):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from learning import PLAIN, models_of

    bench = stages.Bench(*planted, stages.Recipe("22m", "fp32", "rrf", {}, {}), tmp_path)
    ranked = np.array([[0, 1, 2, 3]])
    by_seed = [{PLAIN: ranked, "views": ranked, "spread": ranked, "negatives": ranked}] * 2
    models = models_of(bench, by_seed, ["views+spread", "negatives"])
    assert list(models) == ["views", "spread", "negatives", "all seeds of views+spread", "all seeds of negatives"]
    assert models["negatives"] == [bench.of_stage("negatives", seed, "views") for seed in range(2)]
    assert models["all seeds of views+spread"] == [bench.of_mean([*models["views"], *models["spread"]])]
    assert len({path for paths in models.values() for path in paths}) == 8


def test_a_model_is_named_by_all_that_it_is_made_of(stages: ModuleType, planted: tuple[Any, Any], tmp_path: Path):
    data, found = planted

    def bench(models: tuple[str, ...] = ("encoder", "other"), **given: Any) -> Any:
        vectors = dict.fromkeys(models, found.vectors["encoder"])
        recipe = stages.Recipe("22m", "fp32", "rrf", given, {"epochs": 1})
        return stages.Bench(data, stages.References({}, {}, vectors), recipe, tmp_path)

    def names(of: Any) -> dict[str, str]:
        befores = {name: "views" if name in ("negatives", "distilled", "negatives and start") else "" for name in told}
        return {name: of.of_stage(name, 0, before).name for name, before in befores.items()}

    told = ("pairs", "views", "averaged", "negatives", "negatives and start", "distilled")
    first, longer, other_miner = names(bench()), names(bench(epochs=8)), names(bench(("other", "encoder")))
    assert all(first[name] != longer[name] for name in told)
    assert [name for name in told if first[name] != other_miner[name]] == list(told[3:])
