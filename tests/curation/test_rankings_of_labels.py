"""Negatives are bounded by a positive's score, so labels and rankings whose scores do not compare are refused."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import manifest_key, resolve
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES, RANKINGS
from pipeline_tasks.retrieval.fuse_rankings import fuse_rankings
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from tests.curation.conftest import RANKED, ranking
from tests.stores import go, put, rows

FUSED = ["one", "bm25"]


@pytest.fixture
def worded(store: LocalStore) -> LocalStore:
    """The store with queries that share a word with all passages."""
    put(store, PAIRS, [row | {"query": f"text {row['query']}"} for row in rows(store, "mtp")], dataset="mtp")
    return store


def labelled_by(store: LocalStore, ranker: str) -> Ref:
    go(store, mutual_agreement, models=[ranker])
    return resolve(store, Ref(dataset=f"rankings/{ranker}"))


def test_labels_by_rankings_on_another_scale_are_refused_until_they_are_made_again(worded):
    go(worded, rank_bm25)
    old = labelled_by(worded, "bm25")
    go(worded, rank_bm25, k1=8.0, b=0.2)
    new = resolve(worded, Ref(dataset="rankings/bm25"))
    with pytest.raises(InputError) as error:
        go(worded, mine_negatives, models=["bm25"], alpha=0.95)
    assert f"was made by {old}, of other parameters than {new}: run mutual_agreement again" in str(error.value)
    assert f"or give --input rankings={old}" in str(error.value)
    go(worded, mine_negatives, {"rankings": [str(old)]}, models=["bm25"], alpha=0.95)
    by_old = rows(worded, "mtt/0.95")
    labelled_by(worded, "bm25")
    go(worded, mine_negatives, models=["bm25"], alpha=0.95)
    for row in by_old + rows(worded, "mtt/0.95"):
        assert all(score < 0.95 * row["positive_score"] for score in row["negative_scores"])


def test_other_passages_and_another_depth_are_no_other_scale(worded):
    go(worded, rank_bm25)
    old = labelled_by(worded, "bm25")
    more = [{"passage_id": "t9", "doc_id": "t9", "text": "text of another", "split": "train"}]
    put(worded, PASSAGES, rows(worded, "passages"), more)
    go(worded, rank_bm25, depth=100)
    assert resolve(worded, Ref(dataset="rankings/bm25")) != old
    assert go(worded, mine_negatives, models=["bm25"], alpha=0.95).counters["rows_out"]


def test_labels_whose_rankings_are_gone_pass(worded):
    go(worded, rank_bm25)
    old = labelled_by(worded, "bm25")
    go(worded, rank_bm25, k1=8.0)
    worded.delete(manifest_key(old))
    assert go(worded, mine_negatives, models=["bm25"], alpha=0.95).counters["rows_out"]


@pytest.mark.parametrize("changed", [{"k": 1}, {"b": 0.1}, {"depth": 5}])
def test_a_fusion_with_another_constant_or_of_other_rankings_is_another_scale(worded, changed):
    go(worded, rank_bm25)
    go(worded, fuse_rankings, models=FUSED)
    old = labelled_by(worded, "rrf")
    if "k" not in changed:
        go(worded, rank_bm25, **changed)
    go(worded, fuse_rankings, models=FUSED, k=changed.get("k", 60))
    with pytest.raises(InputError, match=f"was made by {old}, of other parameters"):
        go(worded, mine_negatives, models=["rrf"])


def encoded(store: LocalStore, weights: str = "a", depth: int = 200, **changed: object) -> None:
    """Rankings of model ``one`` by vectors with these parameters."""
    params = {"precision": "float32", "intents": []} | changed
    asked = put(store, PAIR_EMBEDDINGS, dataset="query_embeddings/one", params=params)
    searched = put(store, PASSAGE_EMBEDDINGS, dataset="embeddings/one", params=params)
    ranked = [ranking(source, order) for source, order in RANKED.items()]
    params = {"weights": weights, "depth": depth}
    read = {"queries": asked, "passages": searched, "positives": asked}
    put(store, RANKINGS, ranked, dataset="rankings/one", params=params, **read)


def test_the_hint_names_the_rankings_of_every_model_and_old_ones_only_where_they_differ(worded):
    go(worded, rank_bm25)
    put(
        worded,
        PAIRS,
        [row | {"intent": "nli"} for row in rows(worded, "mtp")[:3]],
        rows(worded, "mtp")[3:],
        dataset="mtp",
    )
    judges = {"any": ["one"], "nli": ["bm25"]}
    go(worded, mutual_agreement, judges=judges)
    old = resolve(worded, Ref(dataset="rankings/bm25"))
    go(worded, rank_bm25, k1=8.0)
    best = ["one", "two", "bm25"]
    with pytest.raises(InputError) as error:
        go(worded, mine_negatives, models=best)
    given = [*(str(resolve(worded, Ref(dataset=f"rankings/{name}"))) for name in best[:2]), str(old)]
    assert str(error.value).endswith(f"--input rankings={','.join(given)}")
    assert go(worded, mine_negatives, {"rankings": given}, models=best, alpha=0.95).counters["rows_out"]


def test_rankings_that_no_negatives_come_from_may_have_other_parameters(worded):
    go(worded, rank_bm25)
    go(worded, mutual_agreement, models=["one", "bm25"])
    go(worded, rank_bm25, k1=8.0)
    assert go(worded, mine_negatives, models=["one", "bm25"], alpha=0.95).counters["rows_out"]


@pytest.mark.parametrize("changed", [{"weights": "b"}, {"precision": "int8"}, {"instructions": {"any": "find it"}}])
def test_another_state_of_an_encoder_is_another_scale(store, changed):
    encoded(store)
    old = labelled_by(store, "one")
    encoded(store, **changed)
    with pytest.raises(InputError, match=f"was made by {old}, of other parameters"):
        go(store, mine_negatives, models=["one"])


def test_how_deep_and_of_which_intents_an_encoder_ranks_is_no_other_scale(store):
    encoded(store)
    labelled_by(store, "one")
    encoded(store, depth=100, intents=["qa"])
    assert go(store, mine_negatives, models=["one"], alpha=0.95).counters["rows_out"]
