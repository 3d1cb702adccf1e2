"""Columns that hold a value once however many rows share it, in a form whose bytes do not vary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def with_distinct_dictionaries(table: pa.Table) -> pa.Table:
    """The table, where no dictionary of a column, or of a column of lists, holds a value twice, or one of no row.

    Of one that does the former, Parquet's writer gives other bytes from one time to the next. The latter, texts of rows
    that were filtered out, would be written, too, and nothing that looks at rows would find them to erase them.
    """
    for place, field in enumerate(table.schema):
        if holds_dictionary(field.type):
            of_lists = pa.types.is_list(field.type)
            chunks = [_of_lists(chunk) if of_lists else _distinct(chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, field, pa.chunked_array(chunks, field.type))
    return table


def holds_dictionary(kind: pa.DataType) -> bool:
    """Whether a column of this type has a dictionary: of its values, or of what its lists hold."""
    return pa.types.is_dictionary(kind.value_type if pa.types.is_list(kind) else kind)


def _of_lists(lists: pa.ListArray) -> pa.ListArray:
    values = lists.flatten()
    once = _distinct(values)
    if once is values:
        return lists
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    ends = pa.array(np.cumsum([0, *lengths]), pa.int32())
    return pa.ListArray.from_arrays(ends, once, type=lists.type, mask=lists.is_null())


def _distinct(values: pa.DictionaryArray) -> pa.DictionaryArray:
    dictionary = values.dictionary
    held = np.unique(values.indices.drop_null().to_numpy())
    if len(held) == pc.count_distinct(dictionary, mode="all").as_py() == len(dictionary):
        return values
    once = dictionary.take(pa.array(held)).dictionary_encode()
    place = np.zeros(len(dictionary), np.int32)
    place[held] = once.indices
    return pa.DictionaryArray.from_arrays(pa.array(place).take(values.indices), once.dictionary)
