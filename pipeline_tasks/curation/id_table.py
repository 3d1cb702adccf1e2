"""Ids as numbers: distinct ids in Arrow, looked up as bytes, a hundred million in a few seconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import one_array


class Strings(NamedTuple):
    """A string column as kernels read it; nobody writes to these arrays.

    Attributes:
        data: bytes of all strings, uint8.
        offsets: where each begins, and where the last ends, int32 or int64 [n + 1].
    """

    data: np.ndarray
    offsets: np.ndarray


class IdTable(NamedTuple):
    """Ids numbered in the order given; of an id that comes twice the first number counts."""

    slots: np.ndarray
    known: Strings

    @classmethod
    def of(cls, ids: pa.Array | pa.ChunkedArray) -> IdTable:
        """The table of these ids."""
        from pipeline_tasks.curation.id_kernels import fill

        known = strings(ids)
        slots = np.full(1 << max(4, (2 * len(ids)).bit_length()), -1, np.int32)
        table = cls(slots, known)
        fill(table)
        return table

    def numbers(self, ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """The number of each id, -1 where it is not in the table.

        Shapes:
            returns [n], int32.
        """
        from pipeline_tasks.curation.id_kernels import find_all

        return find_all(strings(ids), self)


class HashTable(NamedTuple):
    """Distinct hashes, numbered in the order in which they came.

    Attributes:
        slots: open addressing.
        known: hash of each number, uint64.
    """

    slots: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, hashes: np.ndarray) -> tuple[HashTable, np.ndarray]:
        """The table of these hashes, and the number of each.

        Shapes:
            hashes [n], uint64; numbers [n], int32.
        """
        from pipeline_tasks.curation.id_kernels import enter

        slots = np.full(1 << max(4, (2 * len(hashes)).bit_length()), -1, np.int32)
        known = np.empty(len(hashes), np.uint64)
        numbers = enter(hashes, slots, known)
        return cls(slots, known[: numbers.max(initial=-1) + 1]), numbers

    def numbers(self, hashes: np.ndarray) -> np.ndarray:
        """The number of each hash, -1 where it is not in the table.

        Shapes:
            hashes [n], uint64; returns [n], int32.
        """
        from pipeline_tasks.curation.id_kernels import find_hashes

        return find_hashes(hashes, self.slots, self.known)


def strings(column: pa.Array | pa.ChunkedArray) -> Strings:
    """A string column without copying its bytes; a missing string is an empty one."""
    array = one_array(column)
    if array.null_count:
        array = array.fill_null("")
    _, places, data = array.buffers()
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(places, kind)[array.offset :][: len(array) + 1] if len(array) else np.zeros(1, kind)
    found = Strings(np.frombuffer(data or b"", np.uint8), offsets)
    for numbers in found:
        numbers.setflags(write=False)
    return found


def text_hashes(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """64 bits per text: equal texts have equal ones, and two texts of a million share one in 4 of 10^8 cases.

    Shapes:
        returns [n], uint64.
    """
    from pipeline_tasks.curation.id_kernels import hash_all

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.empty(0, np.uint64), *(hash_all(strings(chunk)) for chunk in chunks)])
