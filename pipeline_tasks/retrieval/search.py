"""Exact nearest passages by cosine, in blocks: the block bounds the memory, whatever the size of the corpus."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.errors import InputError

_QUERY_BLOCK = 512
_PASSAGE_BLOCK = 16384


def top_k(
    queries: np.ndarray, passages: np.ndarray, k: int, block: int = _PASSAGE_BLOCK
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` passages of highest inner product per query, best first; equal scores in corpus order.

    Inner products of unit vectors are cosines. Scores that are equal as float32 count as equal. At most ``512
    x block`` scores are held.

    Shapes:
        queries: [q, d]; passages: [n, d]; returns indices [q, k], int64, and scores [q, k], float32.

    Raises:
        InputError: ``k`` is not in 1..n, the widths differ, or a vector is not finite.
    """
    queries, passages = np.asarray(queries, np.float32), np.asarray(passages, np.float32)
    if queries.ndim != 2 or passages.ndim != 2 or queries.shape[1] != passages.shape[1]:
        raise InputError(
            f"queries {queries.shape} and passages {passages.shape} must be matrices of one width: use one model"
        )
    if not 1 <= k <= len(passages):
        raise InputError(f"k = {k} of {len(passages)} passages: ask for between 1 and all of them")
    if not (np.isfinite(queries).all() and np.isfinite(passages).all()):
        raise InputError("a vector holds NaN or infinity: encode again")
    indices = np.empty((len(queries), k), np.int64)
    scores = np.empty((len(queries), k), np.float32)
    for start in range(0, len(queries), _QUERY_BLOCK):
        rows = slice(start, start + _QUERY_BLOCK)
        indices[rows], scores[rows] = _top_k_of_block(queries[rows], passages, k, block)
    return indices, scores


def _top_k_of_block(queries: np.ndarray, passages: np.ndarray, k: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    best_scores = np.empty((len(queries), 0), np.float32)
    best_indices = np.empty((len(queries), 0), np.int64)
    for start in range(0, len(passages), block):
        fresh = queries @ passages[start : start + block].T
        columns = select(fresh, min(k, fresh.shape[1]))
        best_scores = np.hstack([best_scores, np.take_along_axis(fresh, columns, 1)])
        best_indices = np.hstack([best_indices, columns + start])
        kept = select(best_scores, min(k, best_scores.shape[1]))
        best_scores, best_indices = (
            np.take_along_axis(best_scores, kept, 1),
            np.take_along_axis(best_indices, kept, 1),
        )
        best_scores, best_indices = _by_index(best_scores, best_indices)
    order = np.argsort(-best_scores, axis=1, kind="stable")
    return np.take_along_axis(best_indices, order, 1), np.take_along_axis(best_scores, order, 1)


def _by_index(scores: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(indices, axis=1)
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)


def select(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the ``k`` highest scores of each row, in rising column order; of equal scores the first columns.

    Shapes:
        scores: [q, n] with n >= k; returns [q, k], int64.
    """
    n = scores.shape[1]
    least = np.partition(scores, n - k, axis=1)[:, n - k, None]
    chosen = scores >= least
    for row in np.flatnonzero(chosen.sum(axis=1) > k):
        above = scores[row] > least[row]
        tied = np.flatnonzero(scores[row] == least[row])
        chosen[row] = above
        chosen[row, tied[: k - above.sum()]] = True
    return np.nonzero(chosen)[1].reshape(len(scores), k)
