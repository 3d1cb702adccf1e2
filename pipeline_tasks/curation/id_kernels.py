"""Compiled look-ups of ids among many, and hashes of texts: ids stay bytes. Imported inside functions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.compiled import compiled

if TYPE_CHECKING:
    from pipeline_tasks.curation.id_table import IdTable, Strings

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


@compiled
def find(texts: Strings, i: int, table: IdTable) -> int:
    """The number of the ``i``-th of ``texts``, or -1."""
    known, mask = table.known, table.slots.size - 1
    start, end = texts.offsets[i], texts.offsets[i + 1]
    at = np.int64(hash_bytes(texts.data, start, end) & np.uint64(mask))
    while table.slots[at] >= 0:
        number = table.slots[at]
        first = known.offsets[number]
        if known.offsets[number + 1] - first == end - start:
            same = True
            for j in range(end - start):
                if known.data[first + j] != texts.data[start + j]:
                    same = False
                    break
            if same:
                return number
        at = (at + 1) & mask
    return -1


@compiled
def fill(table: IdTable) -> None:
    """Enter all known ids into the empty slots; of an id that comes twice the first one counts."""
    known, mask = table.known, table.slots.size - 1
    for number in range(known.offsets.size - 1):
        if find(known, number, table) >= 0:
            continue
        at = np.int64(hash_bytes(known.data, known.offsets[number], known.offsets[number + 1]) & np.uint64(mask))
        while table.slots[at] >= 0:
            at = (at + 1) & mask
        table.slots[at] = number


@compiled
def find_all(texts: Strings, table: IdTable) -> np.ndarray:
    """The number of every id, or -1.

    Shapes:
        returns [n], int32.
    """
    numbers = np.empty(texts.offsets.size - 1, np.int32)
    for i in range(numbers.size):
        numbers[i] = find(texts, i, table)
    return numbers


@compiled
def enter(hashes: np.ndarray, slots: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Number the distinct hashes in the order in which they come; ``slots`` and ``known`` are written to.

    Shapes:
        hashes and known [n], uint64; slots a power of two above n, int32, all negative; returns [n], int32.
    """
    numbers, mask, n = np.empty(hashes.size, np.int32), np.uint64(slots.size - 1), 0
    for i in range(hashes.size):
        at = np.int64(hashes[i] & mask)
        while slots[at] >= 0 and known[slots[at]] != hashes[i]:
            at = (at + 1) & np.int64(mask)
        if slots[at] < 0:
            slots[at], known[n] = n, hashes[i]
            n += 1
        numbers[i] = slots[at]
    return numbers


@compiled
def find_hashes(hashes: np.ndarray, slots: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The number of every hash, or -1.

    Shapes:
        hashes [n], uint64; returns [n], int32.
    """
    numbers, mask = np.empty(hashes.size, np.int32), np.uint64(slots.size - 1)
    for i in range(hashes.size):
        at = np.int64(hashes[i] & mask)
        while slots[at] >= 0 and known[slots[at]] != hashes[i]:
            at = (at + 1) & np.int64(mask)
        numbers[i] = slots[at]
    return numbers
