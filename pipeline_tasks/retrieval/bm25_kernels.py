"""Compiled BM25 search over an index by words: equal scores go by place. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled


@compiled
def search_words(
    words: np.ndarray,
    starts: np.ndarray,
    weights: np.ndarray,
    places: np.ndarray,
    begins: np.ndarray,
    own: np.ndarray,
    totals: np.ndarray,
    indices: np.ndarray,
    scores: np.ndarray,
    own_scores: np.ndarray,
) -> None:
    """Fill ``indices`` and ``scores``, best first, and the score of one passage of interest per query.

    Shapes:
        words: of all queries, int32, those of query i from starts[i] on; weights, places: of word w from begins[w] on;
        own [q]: a place, or -1; totals [n], float32, working space; indices, scores [q, k]; own_scores [q].
    """
    k = indices.shape[1]
    for at in range(indices.shape[0]):
        totals[:] = 0
        for word in words[starts[at] : starts[at + 1]]:
            for j in range(begins[word], begins[word + 1]):
                totals[places[j]] += weights[j]
        if own[at] >= 0:
            own_scores[at] = totals[own[at]]
        best, where = scores[at], indices[at]
        for i in range(k):
            best[i], where[i] = totals[i], i
        for i in range(k // 2 - 1, -1, -1):
            _sink(best, where, i, k)
        for i in range(k, totals.size):
            if totals[i] > best[0]:
                best[0], where[0] = totals[i], i
                _sink(best, where, 0, k)
        for last in range(k - 1, 0, -1):
            best[0], best[last] = best[last], best[0]
            where[0], where[last] = where[last], where[0]
            _sink(best, where, 0, last)


@compiled
def _sink(best: np.ndarray, where: np.ndarray, at: int, size: int) -> None:
    """Restore a heap whose root is the worst: the lowest score, of equal ones the last place."""
    while True:
        worst, left = at, 2 * at + 1
        for child in range(left, min(left + 2, size)):
            if best[child] < best[worst] or (best[child] == best[worst] and where[child] > where[worst]):
                worst = child
        if worst == at:
            return
        best[at], best[worst] = best[worst], best[at]
        where[at], where[worst] = where[worst], where[at]
        at = worst
