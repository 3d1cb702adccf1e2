"""From nearest passages to a positive and a negative, by the likelihoods and grades of a model that runs here."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.causal_scorer import CausalScorer
from pipeline_tasks.curation.passage_scores import fused_order
from pipeline_tasks.curation.relabel import relabel
from pipeline_tasks.curation.unify import UnifyParams, negative_places, unify
from pipeline_tasks.datasets import PASSAGES, TRIPLETS
from pipeline_tasks.models.use import REFERENCE_MODELS
from tests.curation.compared import PASSAGE, SOURCE, SPLIT, TASK, filled
from tests.curation.small_scorer import make
from tests.stores import go, put, rejects, rows


@pytest.fixture(scope="module")
def scorer(tmp_path_factory) -> str:
    return str(make(tmp_path_factory.mktemp("scorer")))


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return filled(tmp_path / "store")


def test_passages_are_ordered_by_both_scores_and_both_are_kept(store, scorer):
    counters = go(store, relabel, scorer=scorer).counters
    found = {row["query_id"]: row for row in rows(store, "relabelled")}
    assert {name: sorted(row["passage_ids"]) for name, row in found.items()} == {
        "q0": ["p0", "p1", "p2"],
        "q1": ["p1", "p2", "p3"],
        "q3": ["p4", "p5", "p6", "p7"],
    }
    assert rejects(store, "relabelled")["q2"]["reason"] == "nothing_to_compare"
    plain = CausalScorer(scorer)
    for name, row in found.items():
        assert row["passages"] == [PASSAGE[i] for i in row["passage_ids"]]
        for place, (text, query) in enumerate((text, row["query"]) for text in row["passages"]):
            said = plain.log_likelihoods(
                prompts.LIKELIHOOD_BEGINNING, [prompts.before_query(text, TASK)], [f" {query}"]
            )
            assert row["likelihoods"][place] == pytest.approx(said[0], abs=1e-4)
            asked = prompts.before_grade(text, TASK, query)
            grades = np.exp(plain.label_log_probs(prompts.RELEVANCE_BEGINNING, [asked], prompts.GRADES)[0])
            assert row["relevances"][place] == pytest.approx(grades @ [0, 1, 2, 3], abs=1e-4)
        for scores, ranks in (("likelihoods", "likelihood_ranks"), ("relevances", "relevance_ranks")):
            by_rank = [row[scores][row[ranks].index(rank)] for rank in range(1, len(row[ranks]) + 1)]
            assert by_rank == sorted(by_rank, reverse=True)
        fused = [
            1 / (60 + a) + 1 / (60 + b) for a, b in zip(row["likelihood_ranks"], row["relevance_ranks"], strict=True)
        ]
        assert np.float32(fused).tolist() == sorted(np.float32(fused).tolist(), reverse=True)
        assert row["passage_ids"][row["source_rank"] - 1] == row["source_passage_id"] == SOURCE[name]
    assert counters["positives_changed"] == sum(row["source_rank"] > 1 for row in found.values())
    assert counters["passages_compared"] == 10


def test_a_run_that_ended_early_goes_on_with_the_parts_that_are_missing(store, scorer):
    job = plan(store, relabel, {"scorer": scorer})
    begun = run_job(store, job, group=(0, 2)).counters
    rest = run_job(store, job).counters
    assert (begun["passages_compared"], rest["passages_compared"]) == (6, 4)
    assert (rest["parts_built"], rest["parts_reused"]) == (1, 1)


def test_nearest_passages_of_other_passages_are_the_callers_mistake(store, scorer):
    other = put(store, PASSAGES, [{"passage_id": "p0", "text": "another"}])
    with pytest.raises(InputError, match=r"names p\d, which is not in passages@"):
        go(store, relabel, {"passages": [str(other)]}, scorer=scorer)


def test_the_scorer_is_known_by_what_it_is_and_not_by_where_it_lies(scorer, tmp_path):
    moved = make(tmp_path / "moved")
    assert relabel.parse({"scorer": scorer}).identity() == relabel.parse({"scorer": str(moved)}).identity()
    assert relabel.parse({"scorer": scorer}).identity()["prompts_sha256"] == prompts.sha256()


def test_a_scorer_whose_scores_are_no_numbers_is_refused(store, tmp_path):
    weights = make(tmp_path / "broken") / "model.safetensors"
    broken = load_file(weights)
    broken["model.norm.weight"][:] = float("nan")
    save_file(broken, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match="scorer='.*broken' gave 6 scores that are no numbers, the first for ' ta'"):
        go(store, relabel, scorer=str(weights.parent))


def test_a_scorer_that_changed_since_the_run_began_is_refused(store, tmp_path):
    folder = make(tmp_path / "changing")
    job = plan(store, relabel, {"scorer": str(folder)})
    assert job.ref
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    with pytest.raises(InputError, match="changing' changed since this run began"):
        run_job(store, job)


def test_ranks_are_fused_and_ties_go_to_the_nearest():
    best, ranks = fused_order([np.float32([1, 3, 2]), np.float32([3, 1, 2])])
    assert ranks.tolist() == [[3, 1, 2], [1, 3, 2]]
    assert best.tolist() == [0, 1, 2]
    best, _ = fused_order([np.float32([1, 3, 2, 0]), np.float32([1, 2, 3, 3])])
    assert best.tolist() == [2, 1, 3, 0]


def test_the_first_is_the_positive_and_the_last_the_negative_in_rows_that_training_reads(store, scorer):
    go(store, relabel, scorer=scorer)
    build = [
        {"query_id": f"b{n}", "query": "q", "intent": "qa", "split": "train", "negatives": ["n"]} for n in range(3)
    ]
    put(store, TRIPLETS, [*build, {"query_id": "q0", "split": "train"}], dataset="mtt/0.65")
    counters = go(store, unify, builds=["mtt/0.65"], per_source=2).counters
    found, compared = ({row["query_id"]: row for row in rows(store, name)} for name in ("mtt/fret", "relabelled"))
    assert set(compared) == set(found) - {f"b{n}" for n in range(3)}
    for name, row in compared.items():
        assert (found[name]["positive_id"], found[name]["positive"]) == (row["passage_ids"][0], row["passages"][0])
        assert (found[name]["negative_ids"], found[name]["negatives"]) == (
            [row["passage_ids"][-1]],
            [row["passages"][-1]],
        )
        assert (found[name]["instruction"], found[name]["split"]) == (TASK, SPLIT[name])
        assert found[name]["mining_model"] == REFERENCE_MODELS[0]
    of_build = [row for name, row in found.items() if name.startswith("b")]
    assert all(row["instruction"] is None for row in of_build)
    assert len(of_build) == 2 and set(rejects(store, "mtt/fret")) == {"q0"}, "what another source gives takes no room"
    assert counters["not_sampled"] == 1
    assert counters["distinct_tasks"] == 1


@pytest.mark.parametrize(("given", "allowed"), [({"n_negatives": 2}, [[3, 4]]), ({"n_negatives": 9}, [[1, 2, 3, 4]])])
def test_negatives_are_the_last_or_drawn_from_all_but_the_first(given, allowed):
    below = np.arange(1, 5)
    assert negative_places("q", below, UnifyParams(**given)).tolist() in allowed
    drawn = [negative_places(f"q{n}", below, UnifyParams(negatives="sampled", **given)).tolist() for n in range(20)]
    assert {place for places in drawn for place in places} == {1, 2, 3, 4}
    assert all(len(places) == len(allowed[0]) and places == sorted(places) for places in drawn)
