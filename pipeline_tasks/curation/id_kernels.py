"""Compiled look-ups of ids among many: ids stay bytes. Imported inside functions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.core.hash_kernels import hash_bytes

if TYPE_CHECKING:
    from pipeline_tasks.core.text_hashes import Strings
    from pipeline_tasks.curation.id_table import IdTable


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
