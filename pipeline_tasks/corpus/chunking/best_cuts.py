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
    lowest = np.searchsorted(ends, ends[1:] - (len(size_cost) - 1)).tolist()
    reached = ends[1:].tolist()
    before, begun = [0] * n, np.empty(n)
    best = 0.0
    for j, extra in enumerate(cut_cost.tolist()):
        begun[j] = best + extra
        low = lowest[j]
        if low >= j:
            before[j], best = j, begun[j] + size_cost[min(reached[j] - ends[j], len(size_cost) - 1)]
            continue
        costs = begun[low : j + 1] + size_cost[reached[j] - ends[low : j + 1]]
        at = costs.argmin()
        before[j], best = low + int(at), costs[at]
    cuts = []
    at = n
    while at:
        at = before[at - 1]
        cuts.append(at)
    return np.array(cuts[::-1], np.int64)
