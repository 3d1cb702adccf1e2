"""The best set of cuts: the cheapest of all ways to cut units into passages that respect the limit."""

from __future__ import annotations

import numpy as np


def best_cuts(ends: np.ndarray, cut_cost: np.ndarray, size_cost: np.ndarray) -> np.ndarray:
    """First unit of each passage, such that the sum of the costs of cuts and of sizes is least.

    A passage holds at most ``len(size_cost) - 1`` tokens, unless it is a single unit.

    Args:
        ends: number of tokens up to the end of each unit, ascending from 0, [u + 1].
        cut_cost: what it costs to begin a passage with each unit, [u].
        size_cost: what a passage of 0, 1, ... tokens costs, [max_tokens + 1].

    Shapes:
        returns [passages].
    """
    n = len(cut_cost)
    lowest = np.minimum(np.searchsorted(ends, ends[1:] - (len(size_cost) - 1)), np.arange(n)).tolist()
    sizes = np.append(size_cost, size_cost[-1])
    before = np.zeros(n, np.int64)
    begun = np.empty(n)
    best = 0.0
    for j in range(n):
        begun[j] = best + cut_cost[j]
        low = lowest[j]
        costs = begun[low : j + 1] + sizes[np.minimum(ends[j + 1] - ends[low : j + 1], len(size_cost))]
        at = int(costs.argmin())
        best, before[j] = costs[at], low + at
    cuts = []
    at = n
    while at:
        at = int(before[at - 1])
        cuts.append(at)
    return np.array(cuts[::-1], np.int64)
