"""Columns of tables as one array, lists of a column, and places in an order."""

from __future__ import annotations

from collections.abc import Sequence

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


def offsets(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where each of some lists begins among the values of all, and where the last one ends.

    Shapes: lengths [n]; returns [n + 1], int64.
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def list_array(lengths: Sequence[int] | np.ndarray, values: pa.Array) -> pa.ListArray:
    """Lists of these lengths, one after the other, of the values of all."""
    return pa.ListArray.from_arrays(pa.array(offsets(lengths), pa.int32()), values)


def places_in(lists: pa.ListArray, ids: pa.Array) -> np.ndarray:
    """Places in ``ids`` of what lists hold; -1 after the end of a short list.

    Shapes: returns [n, longest, 1 at least], int64.
    """
    lengths = pc.list_value_length(lists).to_numpy()
    found = np.full((len(lists), max(1, lengths.max(initial=0))), -1, np.int64)
    found[np.arange(found.shape[1]) < lengths[:, None]] = pc.index_in(lists.flatten(), value_set=ids).to_numpy()
    return found


def lists_at(places: np.ndarray, ids: pa.Array) -> pa.ListArray:
    """Lists of the ids at places, as :func:`places_in` gives them.

    Shapes: places [n, any], -1 where there is none.
    """
    there = places >= 0
    return list_array(there.sum(axis=1), ids.take(pa.array(places[there])))


def inverse(order: np.ndarray) -> np.ndarray:
    """The place of each number in an order of them all.

    Shapes: [n]; returns [n], int32.
    """
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


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
    whole = pa.concat_arrays(found) if found else pa.array([], values.type)
    return whole.take(pa.array(inverse(order)))


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
