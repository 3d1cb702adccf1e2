"""Near-duplicates among sketches, found exactly and in order: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pipeline_tasks.core.progress import Meter

BLOCK = 4096


def shared_buckets(keys: np.ndarray) -> np.ndarray:
    """The number of the bucket that a text shares with another in each band, -1 where it is alone.

    Numbers begin at 0 and do not repeat between bands.

    Shapes: keys [b, n] uint64; result [b, n] int32.
    """
    buckets = np.full(keys.shape, -1, np.int32)
    made = 0
    for band, values in enumerate(keys):
        order = np.argsort(values)
        ordered = values[order]
        repeats, begins = np.zeros((2, values.size), bool)
        repeats[1:] = ordered[1:] == ordered[:-1]
        begins[:-1] = repeats[1:] & ~repeats[:-1]
        shared = begins | repeats
        buckets[band, order[shared]] = made + np.cumsum(begins)[shared] - 1
        made += int(begins.sum())
    return buckets


def united(n: int, neighbours: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The first of all texts that each is connected with, over neighbours of neighbours; itself where there is none.

    Shapes: pairs of arrays [k] int64, texts and a neighbour of each; returns [n] int64.
    """
    from pipeline_tasks.texts.cluster_kernels import settle_roots, unite

    roots = np.arange(n)
    for texts, others in neighbours:
        unite(roots, texts, others)
    settle_roots(roots)
    return roots


def cluster(
    buckets: np.ndarray, shingles: np.ndarray, offsets: np.ndarray, threshold: float, meter: Meter | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """For each text the earlier one that it repeats, or itself; their exact Jaccard; and how many were compared.

    The earliest of a group stays, and a text is compared with those that stayed alone: similarity is not
    transitive, and chains would merge what nobody would call alike. Later texts never change what earlier ones get.

    Shapes: buckets [n, b]; shingles and offsets as in :class:`Sketches`; results [n] int64, [n] float64.
    """
    from pipeline_tasks.texts.cluster_kernels import place

    n = len(buckets)
    heads = np.full(int(buckets.max(initial=-1)) + 1, -1, np.int32)
    following = np.full(buckets.shape, -1, np.int32)
    seen = np.full(n, -1, np.int32)
    originals, similarities, compared = np.empty(n, np.int64), np.empty(n), 0
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        chains = (buckets, heads, following, seen)
        compared += place(first, last, *chains, shingles, offsets, threshold, originals, similarities)
        if meter:
            meter.advance(last - first)
    return originals, similarities, compared
