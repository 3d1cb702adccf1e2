"""BM25 and a fusion judge and rank negatives like any model."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.retrieval.fuse_rankings import fuse_rankings
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from tests.stores import go, put, rows

TRAINED = {"q-t1", "q-t2", "q-t3", "q-t4", "q-d1", "q-d2"}


@pytest.fixture
def ranked(store: LocalStore) -> LocalStore:
    """The store with rankings by BM25, and by BM25 and model ``one`` fused; queries share a word with all passages."""
    put(store, PAIRS, [row | {"query": f"text {row['query']}"} for row in rows(store, "mtp")], dataset="mtp")
    go(store, rank_bm25)
    go(store, fuse_rankings, models=["one", "bm25"])
    return store


@pytest.mark.parametrize("panel", [["bm25"], ["rrf"], ["rrf", "bm25", "two"], ["bm25", "one"]])
def test_it_votes_beside_models_and_alone(ranked, panel):
    go(ranked, mutual_agreement, models=panel)
    labelled = {row["query_id"]: row for row in rows(ranked, "labelled")}
    assert labelled["q-t1"]["best_model"] == panel[0]
    assert [vote["model"] for vote in labelled["q-t1"]["votes"]] == panel
    assert labelled["q-t1"]["positive_id"] in {"t1", "g-t1"}, "the passage or the positive that names the query's word"
    assert set(labelled) <= TRAINED


@pytest.mark.parametrize("ranker", ["bm25", "rrf"])
def test_negatives_come_from_its_ranking_by_its_own_scores(ranked, ranker):
    go(ranked, mutual_agreement, models=[ranker])
    go(ranked, mine_negatives, models=[ranker], alpha=0.95, n_negatives=2)
    order = {row["query_id"]: row for row in rows(ranked, f"rankings/{ranker}")}
    mined = rows(ranked, "mtt/0.95")
    assert mined
    for row in mined:
        ranking = order[row["query_id"]]
        places = [ranking["passage_ids"].index(name) for name in row["negative_ids"]]
        assert places == sorted(places)
        assert row["negative_scores"] == [ranking["scores"][place] for place in places]
        assert all(score < 0.95 * row["positive_score"] for score in row["negative_scores"])
        assert row["mining_model"] == ranker


def test_what_shares_no_word_with_a_query_is_neither_a_vote_nor_a_negative(store):
    """BM25 fills a ranking with such passages, in the order of their ids."""
    go(store, rank_bm25)
    go(store, mutual_agreement, models=["bm25"], top_n=20)
    go(store, mine_negatives, models=["bm25"], alpha=0.95, n_negatives=20)
    filled = {row["query_id"]: row["scores"] for row in rows(store, "rankings/bm25")}
    assert any(0 in scores for scores in filled.values())
    labelled = rows(store, "labelled")
    assert labelled
    for row in labelled:
        (vote,) = row["votes"]
        assert len(vote["passage_ids"]) == sum(score > 0 for score in filled[row["query_id"]])
    assert all(score > 0 for row in rows(store, "mtt/0.95") for score in row["negative_scores"])
