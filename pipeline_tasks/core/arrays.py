"""Columns of tables as one array."""

from __future__ import annotations

import pyarrow as pa


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece; what is in one piece already is not copied, as ``combine_chunks`` of a column would.

    It may then be a part of longer memory: offsets of lists need not begin with 0.
    """
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
