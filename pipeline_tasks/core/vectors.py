"""Embeddings between Arrow lists and numpy matrices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def matrix(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """A list column of equal lengths as one matrix; no rows give shape [0, 0].

    Shapes: [n, d] float32.
    """
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(lists) == 0:
        return np.zeros((0, 0), np.float32)
    return lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1).astype(np.float32, copy=False)


def lists(vectors: np.ndarray) -> pa.ListArray:
    """A matrix as a list column.

    Shapes: vectors [n, d].
    """
    n, d = vectors.shape
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * d, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(vectors.astype(np.float32, copy=False).ravel(), pa.float32()))
