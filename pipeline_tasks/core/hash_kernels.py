"""Compiled hashes of texts: what is hashed stays bytes in Arrow's memory. Imported inside functions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.compiled import compiled

if TYPE_CHECKING:
    from pipeline_tasks.core.text_hashes import Strings

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(33)
_BYTE = np.uint64(8)


@compiled
def hash_bytes(data: np.ndarray, start: int, end: int) -> np.uint64:
    """64 bits of ``data[start:end]``, eight bytes at a time (FNV-1a over words, MurmurHash3's finaliser)."""
    h = _BASIS ^ np.uint64(end - start)
    at = start
    while at + 8 <= end:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[at + i]) << (_BYTE * np.uint64(i))
        h = (h ^ word) * _MIX
        h ^= h >> _SHIFT
        at += 8
    while at < end:
        h = (h ^ np.uint64(data[at])) * _PRIME
        at += 1
    h = (h ^ (h >> _SHIFT)) * _MIX
    return h ^ (h >> _SHIFT)


@compiled
def hash_all(texts: Strings) -> np.ndarray:
    """The hash of every text.

    Shapes:
        returns [n], uint64.
    """
    hashes = np.empty(texts.offsets.size - 1, np.uint64)
    for i in range(hashes.size):
        hashes[i] = hash_bytes(texts.data, texts.offsets[i], texts.offsets[i + 1])
    return hashes
