from itertools import combinations

import numpy as np
import pytest

from pipeline_tasks.corpus.chunking.best_cuts import best_cuts


def cheapest(ends: np.ndarray, cut_cost: np.ndarray, size_cost: np.ndarray) -> float:
    """The least cost of all ways to cut that keep the limit, by trying each."""
    n, best = len(cut_cost), np.inf
    for k in range(n):
        for chosen in combinations(range(1, n), k):
            cost = total((0, *chosen), ends, cut_cost, size_cost)
            best = min(best, cost)
    return best


def total(cuts, ends, cut_cost, size_cost) -> float:
    sizes = np.diff([ends[c] for c in cuts] + [ends[-1]])
    return np.inf if sizes.max() >= len(size_cost) else size_cost[sizes].sum() + cut_cost[list(cuts)].sum()


@pytest.mark.parametrize("seed", range(60))
def test_no_other_cuts_cost_less(seed):
    random = np.random.default_rng(seed)
    n, limit = int(random.integers(1, 10)), int(random.integers(6, 20))
    ends = np.concatenate([[0], np.cumsum(random.integers(0, 7, n))])
    cut_cost, size_cost = random.normal(size=n), random.normal(size=limit + 1)
    found = best_cuts(ends, cut_cost, size_cost)
    assert found[0] == 0 and (np.diff(found) > 0).all()
    assert total(found, ends, cut_cost, size_cost) == pytest.approx(cheapest(ends, cut_cost, size_cost))


def test_a_unit_over_the_limit_stands_alone():
    found = best_cuts(np.array([0, 2, 40, 42]), np.zeros(3), np.zeros(11))
    assert found.tolist() == [0, 1, 2]
