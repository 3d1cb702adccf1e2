"""Compiled loops over candidate pairs of near-duplicates; imported inside functions only."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.texts.sketch_kernels import jaccard


@compiled
def place(
    first: int,
    last: int,
    buckets: np.ndarray,
    heads: np.ndarray,
    following: np.ndarray,
    seen: np.ndarray,
    shingles: np.ndarray,
    offsets: np.ndarray,
    threshold: float,
    originals: np.ndarray,
    similarities: np.ndarray,
) -> int:
    """Compare documents ``first:last``, in order, with the representatives that share a bucket; returns how many pairs.

    A document like one of them gets the most similar (of equals the earliest) as its original; any other becomes a
    representative: it is put in front of its buckets' chains. Nobody is ever compared with a duplicate.

    Shapes: n documents, b bands: buckets [n, b] (-1: nobody else there); heads [buckets] and following [n, b], the
    chains, begin as -1; so does seen [n]; offsets [n + 1]; out: originals [n], similarities [n].
    """
    compared = 0
    for d in range(first, last):
        mine = shingles[offsets[d] : offsets[d + 1]]
        best, best_similarity = d, 0.0
        for band in range(buckets.shape[1]):
            other = heads[buckets[d, band]] if buckets[d, band] >= 0 else -1
            while other >= 0:
                if seen[other] != d:
                    seen[other] = d
                    compared += 1
                    found = jaccard(mine, shingles[offsets[other] : offsets[other + 1]], threshold)
                    if found > best_similarity or (found > 0 and found == best_similarity and other < best):
                        best, best_similarity = other, found
                other = following[other, band]
        originals[d] = best
        similarities[d] = best_similarity if best != d else 1.0
        if best == d:
            for band in range(buckets.shape[1]):
                bucket = buckets[d, band]
                if bucket >= 0:
                    following[d, band] = heads[bucket]
                    heads[bucket] = d
    return compared


@compiled
def unite(roots: np.ndarray, texts: np.ndarray, others: np.ndarray) -> None:
    """Join the trees of each text and its neighbour under the earlier root; paths are halved on the way.

    Shapes: roots [n], in which nobody lies behind its own place; texts and others [k]; all int64.
    """
    for pair in range(texts.size):
        a, b = texts[pair], others[pair]
        while roots[a] != a:
            roots[a] = roots[roots[a]]
            a = roots[a]
        while roots[b] != b:
            roots[b] = roots[roots[b]]
            b = roots[b]
        if a < b:
            roots[b] = a
        else:
            roots[a] = b


@compiled
def settle_roots(roots: np.ndarray) -> None:
    """Let every text name its root itself. Shapes: roots [n] int64."""
    for text in range(roots.size):
        roots[text] = roots[roots[text]]
