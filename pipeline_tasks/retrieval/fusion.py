"""Reciprocal rank fusion: one ranking out of several, by ranks alone, whatever their scores mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import offsets

BM25 = "bm25"
"""The ranker that goes by words."""
USUAL_K = 60
"""The k of the paper, by which the first ranks of a ranking count little more than the next."""


def fuse(rankings: Sequence[np.ndarray], depth: int, k: int = USUAL_K) -> tuple[np.ndarray, np.ndarray]:
    """The ``depth`` passages of highest sum of ``1 / (k + rank)`` per query; of equal sums the lowest number.

    A ranking that lacks a passage adds nothing to it. Sums that are equal as float32 count as equal, so that a tie
    does not hang on the order of adding up.

    Shapes:
        rankings: each [q, any], int, numbers of passages, best first, each once a row; -1 after the end of a short one.
        Returns numbers [q, depth], int64, -1 after the end, and sums [q, depth], float32, 0 there.

    Source: Cormack, Clarke and Büttcher 2009, Reciprocal rank fusion.
    """
    numbers = np.hstack([np.asarray(found, np.int64) for found in rankings])
    weights = np.concatenate([1 / (k + 1 + np.arange(found.shape[1], dtype=np.float64)) for found in rankings])
    order = np.argsort(numbers, axis=1, kind="stable")
    numbers = np.take_along_axis(numbers, order, axis=1)
    first = np.ones(numbers.shape, bool)
    first[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    sums = np.zeros(numbers.shape)
    starts = np.flatnonzero(first)
    if len(starts):
        sums.ravel()[starts] = np.add.reduceat(weights[order].ravel(), starts)
    sums[numbers < 0] = 0
    sums = sums.astype(np.float32)
    best = np.argsort(-sums, axis=1, kind="stable")[:, :depth]
    found, scores = (np.take_along_axis(array, best, axis=1) for array in (numbers, sums))
    short = ((0, 0), (0, depth - found.shape[1]))
    found = np.pad(np.where(scores > 0, found, -1), short, constant_values=-1)
    return found, np.pad(scores, short)


def fused_score(rankings: Sequence[np.ndarray], own: np.ndarray, k: int = USUAL_K) -> np.ndarray:
    """The sum that one passage per query gets, wherever it ranks; 0 where no ranking has it.

    Shapes:
        rankings as in :func:`fuse`; own [q], numbers, negative for none; returns [q], float32.
    """
    total = np.zeros(len(own))
    for found in rankings:
        there = (found == own[:, None]) & (own >= 0)[:, None]
        total += np.where(there.any(axis=1), 1 / (k + 1 + there.argmax(axis=1)), 0)
    return total.astype(np.float32)


def sharing_words(ids: pa.ListArray, scores: pa.ListArray) -> tuple[pa.ListArray, pa.ListArray]:
    """Rankings by BM25 without those whose score is 0: they share no word with the query, and stand in no order."""
    flat = scores.flatten()
    above = offsets(flat.to_numpy(zero_copy_only=False) > 0)
    ends = pa.array(above[offsets(pc.list_value_length(scores).to_numpy())], pa.int32())
    kept = pc.greater(flat, 0)
    first, second = (pa.ListArray.from_arrays(ends, values.filter(kept)) for values in (ids.flatten(), flat))
    return first, second
