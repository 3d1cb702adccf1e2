"""Compiled loops behind exact search: screen, score again, keep the best. Imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled, in_any_order

_TILE = 64


@compiled
def dot(a: np.ndarray, b: np.ndarray) -> np.float32:
    """Inner product, added up in float64 in one fixed order and rounded once.

    Products of float32 are exact in float64, so the result is the same on every machine and in every block.
    """
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.size // 8 * 8
    for i in range(0, whole, 8):
        s0 += np.float64(a[i]) * np.float64(b[i])
        s1 += np.float64(a[i + 1]) * np.float64(b[i + 1])
        s2 += np.float64(a[i + 2]) * np.float64(b[i + 2])
        s3 += np.float64(a[i + 3]) * np.float64(b[i + 3])
        s4 += np.float64(a[i + 4]) * np.float64(b[i + 4])
        s5 += np.float64(a[i + 5]) * np.float64(b[i + 5])
        s6 += np.float64(a[i + 6]) * np.float64(b[i + 6])
        s7 += np.float64(a[i + 7]) * np.float64(b[i + 7])
    for i in range(whole, a.size):
        s0 += np.float64(a[i]) * np.float64(b[i])
    return np.float32(((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7)))


@in_any_order
def _fast_dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for i in range(a.size):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@compiled
def _score(a: np.ndarray, b: np.ndarray, fuzz: float) -> np.float32:
    """What ``dot`` gives, mostly without its slow order: a sum ``fuzz`` away from a rounding edge is certain."""
    total = _fast_dot(a, b)
    low, high = np.float32(total - fuzz), np.float32(total + fuzz)
    return low if low == high else dot(a, b)


@compiled
def _down(scores: np.ndarray, keys: np.ndarray, score: np.float32, key: np.int32) -> None:
    """Put an entry at the root of a heap whose root is the worst, in place of what is there."""
    at, n = 0, scores.size
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        other = child + 1
        if other < n and (
            scores[other] < scores[child] or (scores[other] == scores[child] and keys[other] > keys[child])
        ):
            child = other
        if scores[child] > score or (scores[child] == score and keys[child] <= key):
            break
        scores[at], keys[at] = scores[child], keys[child]
        at = child
    scores[at], keys[at] = score, key


@compiled
def offer(
    screen: np.ndarray,
    shift: int,
    slack: np.ndarray,
    fuzz: np.ndarray,
    queries: np.ndarray,
    passages: np.ndarray,
    keys: np.ndarray,
    best_scores: np.ndarray,
    best_keys: np.ndarray,
) -> int:
    """Score again what the screen cannot rule out, and keep the best of it; returns how many were scored.

    A passage is ruled out where its screened score is more than ``slack`` below the worst score kept so far. Scores
    are compared by their bits, which order as the numbers do where the bound is not negative; below a negative bound
    everything is scored.

    Shapes:
        screen [q, n], bits of bfloat16 (``shift`` 16) or float32 (``shift`` 0); slack [q], float32;
        fuzz [q], float64, how far two float64 sums of one inner product can be apart;
        queries [q, d], passages [n, d], float32; keys [n], int32, negative where a passage is to be left out;
        best_scores [q, k], float32, and best_keys [q, k], int32: heaps, worst first.
    """
    n_scored = 0
    bound = np.empty(1, np.float32)
    bits = bound.view(np.int32)
    for row in range(screen.shape[0]):
        heap, names = best_scores[row], best_keys[row]
        bound[0] = np.nextafter(heap[0] - slack[row], np.float32(-np.inf))
        least = bits[0] >> shift
        for start in range(0, screen.shape[1], _TILE):
            tile = screen[row, start : start + _TILE]
            highest = tile[0]
            for i in range(1, tile.size):
                highest = max(highest, tile[i])
            if highest < least and least >= 0:
                continue
            for i in range(tile.size):
                key = keys[start + i]
                if (tile[i] < least and least >= 0) or key < 0:
                    continue
                n_scored += 1
                score = _score(queries[row], passages[start + i], fuzz[row])
                if score > heap[0] or (score == heap[0] and key < names[0]):
                    _down(heap, names, score, key)
                    bound[0] = np.nextafter(heap[0] - slack[row], np.float32(-np.inf))
                    least = bits[0] >> shift
    return n_scored


@compiled
def dots(queries: np.ndarray, passages: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The exact score of each query with the passages named for it; -inf where ``at`` is negative.

    Shapes:
        queries [q, d], passages [n, d], float32; at [q, m], int64; returns [q, m], float32.
    """
    scores = np.empty(at.shape, np.float32)
    for row in range(at.shape[0]):
        for column in range(at.shape[1]):
            where = at[row, column]
            scores[row, column] = dot(queries[row], passages[where]) if where >= 0 else np.float32(-np.inf)
    return scores
