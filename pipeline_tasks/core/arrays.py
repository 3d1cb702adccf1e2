"""Columns of tables as one array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PIECE = 1 << 16  # rows: their texts are far below the 2 GiB that one array of strings can hold


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece; what is in one piece already is not copied, as ``combine_chunks`` of a column would.

    It may then be a part of longer memory: offsets of lists need not begin with 0.
    """
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def take_by_chunk(values: pa.ChunkedArray, places: np.ndarray) -> pa.Array:
    """Values at places, chunk by chunk: ``take`` first puts all chunks together, for which a corpus has too many texts.

    Shapes: places [n], any order; result [n].
    """
    order = np.argsort(places, kind="stable")
    ascending, found, at, start = places[order], [], 0, 0
    for chunk in values.chunks:
        stop = int(np.searchsorted(ascending, start + len(chunk)))
        if stop > at:
            found.append(chunk.take(pa.array(ascending[at:stop] - start)))
        at, start = stop, start + len(chunk)
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    whole = pa.concat_arrays(found) if found else pa.array([], values.type)
    return whole.take(pa.array(inverse))


def in_order(rows: pa.Table, column: str) -> pa.Table:
    """Rows by the rising values of a column, in pieces: ``sort_by``, as ``take``, makes one of each column."""
    places = pc.sort_indices(rows, [(column, "ascending")]).to_numpy()
    cuts = [places[at : at + _PIECE] for at in range(0, len(places), _PIECE)]
    return pa.table(
        {
            field.name: pa.chunked_array([take_by_chunk(rows[field.name], cut) for cut in cuts], field.type)
            for field in rows.schema
        }
    )


def lowest(hashes: np.ndarray, n: int) -> np.ndarray:
    """The ``n`` lowest hashes, in any order: a sample that a refresh hardly changes.

    Shapes:
        hashes [m], uint64; returns [min(m, n)].
    """
    return hashes if len(hashes) <= n else np.partition(hashes, n - 1)[:n]
