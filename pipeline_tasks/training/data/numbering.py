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

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """Take in these texts, plain or in a dictionary, after those before."""
        array = one_array(texts)
        if pa.types.is_dictionary(array.type):
            self._hashes.append(_hashes(array.dictionary)[array.indices.to_numpy()])
        else:
            self._hashes.append(_hashes(array))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of every text that was added, and where each number first came.

        Shapes:
            returns [n] int64, and [distinct] int64, ascending.
        """
        hashes = np.concatenate([np.zeros((0, 2), np.uint64), *self._hashes])
        self._hashes.clear()
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        in_order = hashes[order]
        fresh = np.ones(len(order), bool)
        fresh[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
        first = order[fresh]
        number_of = np.empty(len(first), np.int64)
        number_of[np.argsort(first)] = np.arange(len(first))
        numbers = np.empty(len(order), np.int64)
        numbers[order] = number_of[np.cumsum(fresh) - 1]
        return numbers, np.sort(first)

    def digest(self) -> bytes:
        """A hash of all texts in their order."""
        digest = hashlib.sha256()
        for hashes in self._hashes:
            digest.update(hashes.tobytes())
        return digest.digest()


def _hashes(texts: pa.Array) -> np.ndarray:
    found = b"".join(hashlib.blake2b(t.encode(), digest_size=_HASH_BYTES).digest() for t in texts.to_pylist())
    return np.frombuffer(found, np.uint64).reshape(-1, 2)
