"""Embeddings between Arrow lists and numpy matrices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError


def matrix(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """A list column of equal lengths as one matrix, without a copy where it is one chunk; no rows give shape [0, 0].

    Shapes: [n, d] float32.

    Raises:
        InputError: a vector is missing, or two differ in length.
    """
    if len(column) == 0:
        return np.zeros((0, 0), np.float32)
    widths = pc.min_max(pc.list_value_length(column)).as_py()
    if column.null_count or widths["min"] != widths["max"]:
        raise InputError(
            f"vectors of {widths['min']} to {widths['max']} numbers and {column.null_count} missing in one column: "
            "they are not of one model; encode again"
        )
    # One array of lists has room for 2**31 numbers, half a million vectors of 4,096: each chunk for itself.
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    found = [chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), -1) for chunk in chunks]
    return (found[0] if len(found) == 1 else np.concatenate(found)).astype(np.float32, copy=False)


def directed(vectors: np.ndarray) -> np.ndarray:
    """Which vectors have a direction: those that are not zero, and hold no NaN, infinity or too large numbers.

    Shapes: vectors [n, d]; returns [n] bool.
    """
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return (squares > 0) & np.isfinite(squares)


def checked(vectors: np.ndarray, ids: pa.Array | pa.ChunkedArray, source: str) -> np.ndarray:
    """``vectors`` themselves, once each has a direction.

    Raises:
        InputError: a vector holds NaN or infinity, or is zero; it names the first one's id and ``source``.
    """
    wrong = np.flatnonzero(~directed(vectors))
    if len(wrong):
        first = vectors[wrong[0]]
        what = "is zero" if np.isfinite(first).all() and not first.any() else "holds NaN, infinity or too large numbers"
        raise InputError(
            f"{source}: the vector of {ids[int(wrong[0])]} {what} ({len(wrong)} such vectors); "
            "drop that version and encode again"
        )
    return vectors


def lists(vectors: np.ndarray) -> pa.ListArray:
    """A matrix as a list column.

    Shapes: vectors [n, d].
    """
    n, d = vectors.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * d, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(vectors.astype(np.float32, copy=False).ravel(), pa.float32()))
