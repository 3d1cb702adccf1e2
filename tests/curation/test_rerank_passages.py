"""From nearest passages to a positive and a negative, by a model that reads query and passage together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.rerank_passages import order_with_margin, rerank_passages
from pipeline_tasks.curation.unify import unify
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.cross_encoder import load_cross_encoder
from tests import small_reranker
from tests.curation.compared import PASSAGE, SOURCE, filled
from tests.stores import go, rejects, rows

LENGTH = {"max_length": 64}


@pytest.fixture(scope="module")
def reranker(tmp_path_factory) -> str:
    return str(small_reranker.make(tmp_path_factory.mktemp("reranker")))


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return filled(tmp_path / "store")


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_passages_are_ordered_by_the_score_and_the_seed_has_the_margin_more(store, reranker, margin):
    counters = go(store, rerank_passages, reranker=reranker, margin=margin, **LENGTH).counters
    found = {row["query_id"]: row for row in rows(store, "relabelled/reranked")}
    assert set(found) == {"q0", "q1", "q3"}
    assert rejects(store, "relabelled/reranked")["q2"]["reason"] == "nothing_to_compare"
    plain = load_cross_encoder(Path(reranker), 64, 1)
    for name, row in found.items():
        assert row["passages"] == [PASSAGE[i] for i in row["passage_ids"]]
        said = plain.scores([row["query"]] * len(row["passages"]), row["passages"])
        assert row["relevances"] == pytest.approx(said.tolist(), abs=1e-5)
        raised = [
            score + margin * (i == SOURCE[name]) for i, score in zip(row["passage_ids"], row["relevances"], strict=True)
        ]
        assert raised == sorted(raised, reverse=True)
        assert sorted(row["relevance_ranks"]) == list(range(1, len(raised) + 1))
        assert row["relevances"][row["relevance_ranks"].index(1)] == max(row["relevances"])
        assert row["likelihoods"] == [None] * len(raised)
        assert row["passage_ids"][row["source_rank"] - 1] == SOURCE[name]
    assert counters["positives_changed"] == sum(row["source_rank"] > 1 for row in found.values())
    assert counters["passages_compared"] == 10


def test_a_sure_margin_keeps_every_seed_and_unify_reads_the_rows(store, reranker):
    assert go(store, rerank_passages, reranker=reranker, margin=1e6, **LENGTH).counters["positives_changed"] == 0
    go(store, unify, {"relabelled": ["relabelled/reranked"]})
    positives = {row["query_id"]: row["positive_id"] for row in rows(store, "mtt/fret")}
    surpassed = {name for name, row in rejects(store, "mtt/fret").items() if row["reason"] == "no_negative"}
    assert positives == {name: seed for name, seed in SOURCE.items() if name not in {"q2", *surpassed}}
    for row in rows(store, "relabelled/reranked"):
        assert (row["query_id"] in surpassed) == (min(row["relevances"]) == row["relevances"][0])


def test_a_run_that_ended_early_goes_on_with_the_parts_that_are_missing(store, reranker):
    job = plan(store, rerank_passages, {"reranker": reranker, **LENGTH})
    begun = run_job(store, job, group=(0, 2)).counters
    rest = run_job(store, job).counters
    assert begun["passages_compared"] + rest["passages_compared"] == 10
    assert (rest["parts_built"], rest["parts_reused"]) == (1, 1)


def test_a_reranker_that_changed_since_the_run_began_is_refused(store, tmp_path):
    folder = small_reranker.make(tmp_path / "changing")
    job = plan(store, rerank_passages, {"reranker": str(folder), **LENGTH})
    assert job.ref
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    with pytest.raises(InputError, match="changing' changed since this run began"):
        run_job(store, job)


def test_ties_go_to_the_seed_and_then_to_the_nearest():
    assert order_with_margin(np.float32([2, 1, 2, 1]), 3, 0).tolist() == [0, 2, 3, 1]
    assert order_with_margin(np.float32([2, 1, 2, 1]), 3, 1).tolist() == [3, 0, 2, 1]
    assert order_with_margin(np.float32([2, 1, 2, 1]), 1, 0.9).tolist() == [0, 2, 1, 3]


def test_a_registered_reranker_is_known_by_its_weights_and_a_model_of_another_kind_is_refused():
    named = rerank_passages.parse({"reranker": "ms-marco-minilm-l12"})
    assert get("ms-marco-minilm-l12").offline.files["model.onnx"] in str(named.identity())
    assert named.licences() == {"ms-marco-minilm-l12": "Apache-2.0"}
    with pytest.raises(InputError, match="reranker='all-minilm-l6-v2' is no model that scores pairs"):
        rerank_passages.parse({"reranker": "all-minilm-l6-v2"}).identity()
