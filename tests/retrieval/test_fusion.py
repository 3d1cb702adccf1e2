from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline_tasks.retrieval.fusion import fuse, fused_score


def test_a_passage_that_two_rankings_have_beats_one_that_only_one_has():
    numbers, sums = fuse([np.array([[1, 2, 3]]), np.array([[2, 4, -1]])], depth=3, k=60)
    assert numbers.tolist() == [[2, 1, 4]]
    np.testing.assert_allclose(sums[0], [1 / 62 + 1 / 61, 1 / 61, 1 / 62], rtol=1e-6)


def test_equal_sums_go_by_number_and_a_short_result_is_filled_up():
    numbers, sums = fuse([np.array([[7, 3]]), np.array([[3, 7]])], depth=4)
    assert numbers.tolist() == [[3, 7, -1, -1]]
    assert sums[0, 0] == sums[0, 1] > 0 and not sums[0, 2:].any()


def test_no_queries_and_empty_rankings():
    assert fuse([np.empty((0, 3), int)], depth=2)[0].shape == (0, 2)
    assert fuse([np.full((2, 1), -1)], depth=2)[0].tolist() == [[-1, -1]] * 2


@given(st.data(), st.integers(1, 4), st.integers(1, 12), st.integers(0, 60))
def test_against_a_plain_loop(data, n_rankings, depth, k):
    one = st.lists(st.integers(0, 9), unique=True, max_size=8)
    n_queries = data.draw(st.integers(1, 5))
    lists = [[data.draw(one) for _ in range(n_queries)] for _ in range(n_rankings)]
    rankings = [np.array([row + [-1] * (8 - len(row)) for row in rows]) for rows in lists]
    numbers, sums = fuse(rankings, depth, k)
    own = np.arange(n_queries) % 10
    mine = fused_score(rankings, own, k)
    for query in range(n_queries):
        exact: dict[int, Fraction] = defaultdict(Fraction)
        for rows in lists:
            for rank, number in enumerate(rows[query], 1):
                exact[number] += Fraction(1, k + rank)
        total = {number: np.float32(float(found)) for number, found in exact.items()}
        best = sorted(total, key=lambda number: (-total[number], number))[:depth]
        assert numbers[query].tolist() == best + [-1] * (depth - len(best))
        np.testing.assert_allclose(sums[query, : len(best)], [total[number] for number in best], rtol=1e-6)
        np.testing.assert_allclose(mine[query], total.get(own[query], 0), rtol=1e-6)
