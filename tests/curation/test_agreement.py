"""The rule over arrays, case by case and against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_tasks.core.arrays import lowest
from pipeline_tasks.curation.agreement import NOBODY, TopPassages, agreed, placed


def positive(orders: tuple[str, ...], top_n: int, strategy: str = "mutual", own: str = "") -> str | None:
    names = sorted({*"".join(orders).replace(" ", ""), *own})
    codes = np.full((1, len(orders), top_n), NOBODY, np.int32)
    for seat, order in enumerate(orders):
        for rank, name in enumerate(order.split()[:top_n]):
            codes[0, seat, rank] = names.index(name)
    mine = np.array([names.index(own) if own else NOBODY])
    found = agreed(codes, np.ones((1, len(orders)), bool), mine, strategy)[0]
    return None if found == NOBODY else names[found]


@pytest.mark.parametrize(
    ("orders", "top_n", "expected"),
    [
        (("a b c", "a c b", "a b c"), 1, "a"),
        (("a b c", "b a c", "a b c"), 1, None),
        (("a b c", "b a c", "a b c"), 2, "a"),
        (("a b c", "b a c", "b c a"), 2, "b"),
        (("a b c", "c b a", "c a b"), 2, None),
        (("a b c", "c b a", "c a b"), 3, "a"),
        (("a b c", "d c b", "c e f"), 3, "c"),
        (("a b c", "d e f", "a b c"), 3, None),
        (("a b", "b a", "b a"), 5, "a"),
        (("b a c",), 1, "b"),
        (("", "a", "a"), 3, None),
        (("a", "", "a"), 3, None),
    ],
)
def test_mutual_takes_the_best_models_first_shared_passage(orders, top_n, expected):
    assert positive(orders, top_n) == expected


@pytest.mark.parametrize(
    ("orders", "top_n", "expected"),
    [
        (("a b c", "a b d", "b a e"), 2, "a"),
        (("a b c", "a b d", "a c b"), 2, None),
        (("a b c", "a b d", "a c b"), 1, "a"),
        (("a b c", "c a b", "b c a"), 3, "a"),
        (("b a", "a b", "a b"), 5, "b"),
    ],
)
def test_identical_wants_the_same_top_n_in_any_order(orders, top_n, expected):
    assert positive(orders, top_n, "identical") == expected


def test_consistency_asks_the_best_model_alone_and_none_asks_nobody():
    assert positive(("b a c", "c c c"), 2, "consistency", own="a") == "a"
    assert positive(("b c a", "a a a"), 2, "consistency", own="a") is None
    assert positive(("b c d",), 2, "none", own="z") == "z"


def test_who_does_not_judge_has_no_veto():
    codes = np.array([[[1, 2], [3, 4]], [[1, 2], [3, 4]]], np.int32)
    judges = np.array([[True, False], [True, True]])
    assert agreed(codes, judges, np.array([9, 9]), "mutual").tolist() == [1, NOBODY]


def test_identical_has_no_passage_that_the_best_model_has_not():
    codes = np.array([[[7, NOBODY], [7, 9]], [[7, NOBODY], [7, NOBODY]]], np.int32)
    judges = np.ones((2, 2), bool)
    assert agreed(codes, judges, np.array([7, 7]), "identical").tolist() == [NOBODY, 7]
    judges[0, 1] = False
    assert agreed(codes, judges, np.array([7, 7]), "identical").tolist() == [7, 7]


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_against_a_plain_loop(data, n_models, top_n):
    order = st.lists(st.integers(0, 5), min_size=top_n, max_size=top_n, unique=True)
    rows = data.draw(st.lists(st.lists(order, min_size=n_models, max_size=n_models), min_size=1, max_size=8))
    codes, judges = np.array(rows, np.int32), np.ones((len(rows), n_models), bool)
    own = np.zeros(len(rows), np.int32)
    for found, row in zip(agreed(codes, judges, own, "mutual"), rows, strict=True):
        shared = set.intersection(*map(set, row))
        assert found == next((p for p in row[0] if p in shared), NOBODY)
    for found, row in zip(agreed(codes, judges, own, "identical"), rows, strict=True):
        assert found == (row[0][0] if all(set(other) == set(row[0]) for other in row) else NOBODY)


def test_rank_and_score_come_from_the_top_n_else_from_what_is_known_of_the_own_positive():
    heard = TopPassages.empty(3, 2, 2)
    heard.n[:] = 2
    heard.scores[:] = [[[0.9, 0.8], [0.7, 0.6]]] * 3
    heard.own_rank[:], heard.own_score[:] = 9, 0.25
    votes = heard.votes(np.array([5, 6, 6, 7] * 3))
    ranks, scores = placed(votes, np.array([6, 7, 7]), np.array([6, 6, 7]))
    assert ranks.tolist() == [[2, 1], [0, 2], [9, 2]]
    np.testing.assert_allclose(scores, [[0.8, 0.7], [np.nan, 0.6], [0.25, 0.6]], rtol=1e-6)


def test_where_a_model_has_fewer_than_n_there_is_nobody():
    heard = TopPassages.empty(2, 1, 3)
    heard.n[:] = [[2], [0]]
    assert heard.votes(np.array([4, 5])).codes.tolist() == [[[4, 5, NOBODY]], [[NOBODY] * 3]]


def test_a_sample_is_of_the_lowest_hashes():
    hashes = np.array([5, 1, 9, 2**63, 3], np.uint64)
    assert sorted(lowest(hashes, 3).tolist()) == [1, 3, 5]
    assert lowest(hashes, 5).tolist() == lowest(hashes, 6).tolist() == hashes.tolist()
    assert lowest(hashes[:0], 1).tolist() == []
