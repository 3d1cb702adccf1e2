"""Texts to shingles and MinHash signatures, signatures to band keys: arrays in, arrays out.

A *shingle* is a run of words (see :mod:`pipeline_tasks.texts.letters`) and known by a 64-bit hash, so that two of them
never share one by chance; its low 32 bits are what MinHash permutes, in datasketch's scheme: our signatures are its
signatures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline_tasks.texts.letters import alphabet

SEED = 1
MISS = 0.001
NO_WORDS = 0
"""The one shingle of a text without words."""


@dataclass(frozen=True)
class Sketches:
    """Sketches of n texts.

    Shapes: shingles [all] uint64, those of text i, sorted and distinct, at ``offsets[i]:offsets[i + 1]``; offsets
    [n + 1] int64; signatures [n, p] uint32.
    """

    shingles: np.ndarray
    offsets: np.ndarray
    signatures: np.ndarray


def sketch_texts(texts: pa.StringArray, shingle_words: int = 3, n_permutations: int = 128) -> Sketches:
    """Shingles of ``shingle_words`` words, and MinHash signatures; a text with fewer words is one shingle.

    Every text has a shingle, an empty one that of no words: two empty texts are alike, and no Jaccard is 0/0.
    """
    from pipeline_tasks.texts.sketch_kernels import sketch

    n, texts = len(texts), texts.cast(pa.string()).fill_null("")
    _, starts, data = texts.buffers()
    bounds = np.zeros(1, np.int32) if n == 0 else np.frombuffer(starts, np.int32, n + 1, 4 * texts.offset)
    letters = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    shingles = np.empty((bounds[-1] - bounds[0]) // 2 + n, np.uint64)
    offsets = np.zeros(n + 1, np.int64)
    signatures = np.empty((n, n_permutations), np.uint32)
    sketch(letters, bounds, alphabet(), shingle_words, *_permutations(n_permutations), shingles, offsets, signatures)
    return Sketches(shingles[: offsets[-1]].copy(), offsets, signatures)


def _permutations(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors and summands of ``a * h + b`` as datasketch draws them; an odd ``a`` makes it a permutation."""
    chance = np.random.RandomState(SEED)
    a = chance.randint(0, 1 << 31, n, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return a, chance.randint(0, 1 << 32, n, dtype=np.uint32)


def band_rows(threshold: float, n_permutations: int) -> int:
    """Rows of a band: as many as let a pair right at ``threshold`` slip through with a chance of ``MISS`` at most.

    More rows make fewer false candidates; a pair of similarity s meets in one of b bands of r rows with probability
    ``1 - (1 - s^r)^b``.
    """
    rows = range(n_permutations, 1, -1)
    return next((r for r in rows if (1 - threshold**r) ** (n_permutations // r) <= MISS), 1)


def band_keys(signatures: np.ndarray, rows: int) -> np.ndarray:
    """A 64-bit hash of every band of ``rows`` rows; rows left over at the end are not used.

    Shapes: signatures [n, p] uint32; result [p // rows, n] uint64.
    """
    n, p = signatures.shape
    columns = signatures[:, : p // rows * rows].reshape(n, p // rows, rows).astype(np.uint64)
    keys = np.zeros((n, p // rows), np.uint64)
    for row in range(rows):
        keys = (keys ^ columns[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(29)
    return np.ascontiguousarray(keys.T)
