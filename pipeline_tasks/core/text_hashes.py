"""Columns of texts as compiled loops read them, and a hash of each text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import whole


class Strings(NamedTuple):
    """A string column as kernels read it; nobody writes to these arrays.

    Attributes:
        data: bytes of all strings, uint8.
        offsets: where each begins, and where the last ends, int32 or int64 [n + 1].
    """

    data: np.ndarray
    offsets: np.ndarray


def strings(column: pa.Array | pa.ChunkedArray) -> Strings:
    """A string column without copying its bytes; a missing string is an empty one."""
    array = whole(column)
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
    from pipeline_tasks.core.hash_kernels import hash_all

    return hash_all(strings(column))
