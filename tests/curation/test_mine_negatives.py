from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import MineNegativesParams, mine_negatives, select_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from tests.curation.conftest import SPLIT_OF
from tests.stores import go, rejects, rows


def chosen(scores: list[float], positive: float, allowed: list[bool] | None = None, **params: float) -> list[int]:
    mask = np.array(allowed if allowed is not None else [True] * len(scores), dtype=bool)
    return select_negatives(np.array(scores, np.float32), positive, mask, MineNegativesParams(**params)).tolist()


def test_the_first_k_below_the_margin_in_rank_order():
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert chosen(scores, 0.9, alpha=0.75, n_negatives=2) == [3, 4]
    assert chosen(scores, 0.9, alpha=0.95, n_negatives=2) == [1, 2]
    assert chosen(scores, 0.9, alpha=0.75, n_negatives=9) == [3, 4, 5]
    assert chosen(scores, 0.4, alpha=0.9) == []


def test_a_score_at_the_margin_is_excluded():
    """0.75 * 0.8 in float32, and the float32 numbers next to it."""
    margin = np.float32(0.75) * np.float32(0.8)
    above, below = (float(np.nextafter(margin, np.float32(to))) for to in (1, 0))
    assert chosen([above, float(margin), below], 0.8, alpha=0.75) == [2]


def test_what_is_not_allowed_is_passed_over():
    allowed = [False, True, False, True, True]
    assert chosen([0.5, 0.4, 0.3, 0.2, 0.1], 1.0, allowed, alpha=0.75, n_negatives=2) == [1, 3]


@given(
    scores=st.lists(st.floats(-1, 1, width=32), max_size=50).map(lambda s: sorted(s, reverse=True)),
    positive=st.floats(0, 1, width=32),
    alpha=st.floats(0.1, 1),
    n=st.integers(1, 10),
    data=st.data(),
)
def test_select_negatives_against_a_loop(scores, positive, alpha, n, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    expected = []
    for i, (score, may) in enumerate(zip(scores, allowed, strict=True)):
        if may and np.float32(score) < np.float32(alpha) * np.float32(positive) and len(expected) < n:
            expected.append(i)
    assert chosen(scores, positive, allowed, alpha=alpha, n_negatives=n) == expected


@pytest.fixture
def labelled(store: LocalStore) -> LocalStore:
    go(store, mutual_agreement, models=("one", "two"), top_n=2)
    return store


def mined(store: LocalStore, alpha: float, **params: int) -> dict[str, dict]:
    go(store, mine_negatives, alpha=alpha, models=("one",), **params)
    return {row["query_id"]: row for row in rows(store, f"mtt/{alpha}")}


def test_negatives_leave_out_the_positive_its_sources_and_other_splits(labelled):
    triplets = mined(labelled, 1.0)
    assert {query: row["negative_ids"] for query, row in triplets.items()} == {
        "q-t1": ["t2", "t3", "t4", "t5"],
        "q-t2": ["t3", "t4", "t1", "t5"],
        "q-d1": ["d2", "d3"],
    }
    row = triplets["q-t2"]
    assert (row["positive_id"], row["positive"], row["mining_model"]) == ("g-t2", "text for t2", "one")
    assert row["negatives"] == ["text of t3", "text of t4", "text of t1", "text of t5"]
    assert row["positive_score"] == pytest.approx(0.9)
    assert row["negative_scores"] == pytest.approx([0.85, 0.65, 0.55, 0.5])


def test_every_negative_is_below_alpha_times_the_positive(labelled):
    for alpha in (0.7, 0.8, 0.9):
        triplets = mined(labelled, alpha)
        assert triplets
        for row in triplets.values():
            assert max(row["negative_scores"]) < alpha * row["positive_score"]
            assert row["negative_scores"] == sorted(row["negative_scores"], reverse=True)


def test_fewer_stay_fewer_and_none_is_a_reject(labelled):
    outcome = go(labelled, mine_negatives, alpha=1.0, n_negatives=3, models=("one",))
    lengths = {row["query_id"]: len(row["negative_ids"]) for row in rows(labelled, "mtt/1.0")}
    assert lengths == {"q-t1": 3, "q-t2": 3, "q-d1": 2}
    assert outcome.counters["short_queries"] == 1 and outcome.counters["negatives"] == 8
    refused = rejects(labelled, "mtt/1.0")
    assert {query: row["reason"] for query, row in refused.items()} == {"q-t4": "no_negative"}


def test_a_held_out_passage_never_enters_training(labelled):
    """By id and by text, as positive or as negative, at any alpha."""
    held_out = {f"text of {p}" for p, split in SPLIT_OF.items() if split == "test"} | {"text for h1"}
    of_dev = {f"text of {p}" for p, split in SPLIT_OF.items() if split == "dev"} | {"text for d1", "text for d2"}
    for alpha in (0.75, 0.9, 1.0):
        for row in mined(labelled, alpha).values():
            texts = {row["positive"], *row["negatives"]}
            assert not texts & held_out and row["split"] in ("train", "dev")
            assert row["split"] == "dev" or not texts & of_dev
            assert row["positive_id"] not in row["negative_ids"]
            assert f"g-{row['query_id'][2:]}" not in row["negative_ids"]
            assert row["query_id"][2:] not in row["negative_ids"]
