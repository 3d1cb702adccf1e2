"""Distinct texts as numbers, in the order in which they first come, without keeping a text in memory."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import one_array

_HASH_BYTES = 16


class Numbering:
    """Numbers equal texts equally; a text is known by 128 bits of its hash, so memory is 16 bytes per text given."""

    def __init__(self) -> None:
        self._hashes: list[np.ndarray] = []
        self._distinct = np.zeros((0, 2), np.uint64)
        self._number_of = np.zeros(0, np.int64)

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Take in these texts, plain or in a dictionary, after those before."""
        array = one_array(texts)
        if pa.types.is_dictionary(array.type):
            self._hashes.append(hashes(array.dictionary)[array.indices.to_numpy()])
        else:
            self._hashes.append(hashes(array))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of every text that was added, and where each number first came.

        Shapes:
            returns [n] int64, and [distinct] int64, ascending.
        """
        given = np.concatenate([np.zeros((0, 2), np.uint64), *self._hashes])
        self._hashes.clear()
        order = np.lexsort((given[:, 1], given[:, 0]))
        in_order = given[order]
        fresh = np.ones(len(order), bool)
        fresh[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
        first = order[fresh]
        number_of = np.empty(len(first), np.int64)
        number_of[np.argsort(first)] = np.arange(len(first))
        numbers = np.empty(len(order), np.int64)
        numbers[order] = number_of[np.cumsum(fresh) - 1]
        self._distinct, self._number_of = in_order[fresh], number_of
        return numbers, np.sort(first)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Once all are numbered, the numbers of texts by their hashes; -1 for one that was not added.

        Shapes:
            wanted: [n, 2] as :func:`hashes` gives them; returns [n] int64.
        """
        if not len(self._distinct):
            return np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._distinct[:, 0], wanted[:, 0]).clip(max=len(self._distinct) - 1)
        return np.where((self._distinct[at] == wanted).all(axis=1), self._number_of[at], -1)

    def digest(self) -> bytes:
        """A hash of all texts in their order."""
        digest = hashlib.sha256()
        for some in self._hashes:
            digest.update(some.tobytes())
        return digest.digest()


def hashes(texts: pa.Array) -> np.ndarray:
    """What texts are known by, [n, 2] uint64."""
    found = b"".join(hashlib.blake2b(t.encode(), digest_size=_HASH_BYTES).digest() for t in texts.to_pylist())
    return np.frombuffer(found, np.uint64).reshape(-1, 2)
