"""Distinct texts as numbers, in the order in which they first come, without keeping a text in memory."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.training.data.growing import Growing

_HASH_BYTES = 16


class Numbering:
    """Numbers equal texts equally; a text is known by 128 bits of its hash, so memory is 16 bytes per text given."""

    def __init__(self) -> None:
        self._hashes = Growing(np.uint64)
        self._distinct = np.zeros((0, 2), np.uint64)
        self._number_of = np.zeros(0, np.int64)

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Take in these texts, plain or in a dictionary, after those before."""
        array = one_array(texts)
        if pa.types.is_dictionary(array.type):
            self._hashes.add(hashes(array.dictionary)[array.indices.to_numpy()])
        else:
            self._hashes.add(hashes(array))

    def finish(self, find: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The number of every text that was added, and where each number first came.

        Args:
            find: keep what :meth:`find` needs, 24 bytes for each distinct text.

        Shapes:
            returns [n] int64, and [distinct] int64, ascending.
        """
        given = self._hashes.array().reshape(-1, 2)
        order = np.lexsort((given[:, 1], given[:, 0]))
        fresh = np.zeros(len(order), bool)
        fresh[:1] = True
        for column in given.T:
            half = column[order]
            fresh[1:] |= half[1:] != half[:-1]
            del half
        first = order[fresh]
        if find:
            self._distinct = given[first]
        del given
        self._hashes = Growing(np.uint64)
        is_first = np.zeros(len(order), bool)
        is_first[first] = True
        numbers = np.cumsum(is_first) - 1
        number_of = numbers[first]
        times = np.diff(np.flatnonzero(fresh), append=len(order))
        numbers[order] = np.repeat(number_of, times)
        if find:
            self._number_of = number_of
        return numbers, np.flatnonzero(is_first)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Once all are numbered, and kept to be found, the numbers of texts by their hashes; -1 for one not added.

        Shapes:
            wanted: [n, 2] as :func:`hashes` gives them; returns [n] int64.
        """
        if not len(self._distinct):
            return np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._distinct[:, 0], wanted[:, 0]).clip(max=len(self._distinct) - 1)
        return np.where((self._distinct[at] == wanted).all(axis=1), self._number_of[at], -1)

    def digest(self) -> bytes:
        """A hash of all texts in their order, before they are numbered."""
        return hashlib.sha256(np.ascontiguousarray(self._hashes.array()).data).digest()


def hashes(texts: pa.Array) -> np.ndarray:
    """What texts are known by, [n, 2] uint64."""
    found = b"".join(hashlib.blake2b(t.encode(), digest_size=_HASH_BYTES).digest() for t in texts.to_pylist())
    return np.frombuffer(found, np.uint64).reshape(-1, 2)
