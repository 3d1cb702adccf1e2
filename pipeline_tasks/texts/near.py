"""Which texts have nearly the words of known ones: candidates by MinHash, Jaccard similarities exactly."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline_tasks.texts.letters import plain
from pipeline_tasks.texts.minhash import NO_WORDS, Sketches, band_keys, band_rows, sketch_texts

_PERMUTATIONS = 128


class Near(NamedTuple):
    """Texts that are near to known ones.

    Shapes: rows [n] int64, ascending; owners [n] uint64, masks.
    """

    rows: np.ndarray
    owners: np.ndarray


class _Bands(NamedTuple):
    """Known texts by the keys of their bands.

    Shapes: keys [b, n] uint64, each band ascending; places [b, n] int64, of the texts that have them.
    """

    keys: np.ndarray
    places: np.ndarray


class NearTexts:
    """Texts that others are compared with, by the set of their words; all are added before the first search.

    Args:
        threshold: Jaccard similarity of the words, from which on two texts are near. One right at it is missed with a
            chance of a thousandth, a nearer one with a smaller.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._band_rows = band_rows(threshold, _PERMUTATIONS)
        self._texts: list[pa.Array] = []
        self._masks: list[np.ndarray] = []

    def add(self, owner: int, texts: pa.Array) -> None:
        """Texts of one owner, a number that is a bit of the masks."""
        self._texts.append(plain(texts))
        self._masks.append(np.full(len(texts), 1 << owner, np.uint64))

    @cached_property
    def _sketch_index(self) -> tuple[Sketches, np.ndarray, _Bands]:
        texts = pa.concat_arrays([pa.array([], pa.string()), *self._texts])
        sketches = sketch_texts(texts, 1, _PERMUTATIONS)
        keys = band_keys(sketches.signatures, self._band_rows)
        order = np.argsort(keys, axis=1, kind="stable")
        masks = np.concatenate([np.zeros(0, np.uint64), *self._masks])
        return sketches, masks, _Bands(np.take_along_axis(keys, order, axis=1), order)

    def near_among(self, texts: pa.Array) -> Near:
        """Which of ``texts`` are near to a known one; one without words is not."""
        from pipeline_tasks.texts.sketch_kernels import jaccards

        known, masks, bands = self._sketch_index
        mine = sketch_texts(plain(texts), 1, _PERMUTATIONS)
        pairs = _candidates(band_keys(mine.signatures, self._band_rows), bands)
        alike = jaccards(mine.shingles, mine.offsets, known.shingles, known.offsets, pairs, self._threshold)
        has_words = mine.shingles[mine.offsets[pairs[:, 0]]] != NO_WORDS
        rows, places = pairs[(alike > 0) & has_words].T
        owners = np.zeros(len(texts), np.uint64)
        np.bitwise_or.at(owners, rows, masks[places])
        found = np.flatnonzero(owners)
        return Near(found, owners[found])


def _candidates(keys: np.ndarray, bands: _Bands) -> np.ndarray:
    """Every pair of a text and a known one that share a band, once.

    Shapes: keys [b, m] uint64; result [pairs, 2] int64.
    """
    found = [np.zeros((0, 2), np.int64)]
    for mine, theirs, places in zip(keys, *bands, strict=True):
        first = np.searchsorted(theirs, mine, side="left")
        counts = np.searchsorted(theirs, mine, side="right") - first
        rows = np.repeat(np.arange(len(mine)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        found.append(np.stack([rows, places[np.repeat(first, counts) + within]], axis=1))
    return np.unique(np.concatenate(found), axis=0)
