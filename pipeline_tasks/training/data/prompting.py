"""Queries and passages as a layout wants them: what is put before them, and what of that a vector leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout


def query_columns(rows: pa.Table, layout: Layout) -> dict[str, Any]:
    """``queries``, ``prompts``, ``pools_prompts`` and ``answers`` of a block, as ``layout`` wants queries asked.

    Args:
        rows: with columns ``query`` and ``intent``; ``instruction``, where there is one, goes before the intent's.
        layout: of the model that is asked.
    """
    columns = (rows[name].to_pylist() for name in ("intent", "instruction") if name in rows.column_names)
    before = [layout.query_prefix(*of_query) for of_query in zip(*columns, strict=True)]
    prefixed = [prefix + query for prefix, query in zip(before, rows["query"].to_pylist(), strict=True)]
    own = own_words(rows["query"], layout)
    return {"queries": prefixed, "prompts": before, "pools_prompts": layout.pools_prefix, "answers": own}


def own_words(queries: pa.ChunkedArray, layout: Layout) -> pa.Array:
    """Of each query a list of its words as a passage: where a training has that passage too, it is no wrong answer."""
    as_passages = one_array(with_passage_prefix(queries, layout))
    return pa.ListArray.from_arrays(np.arange(len(queries) + 1, dtype=np.int32), as_passages)


def with_passage_prefix(passages: pa.ChunkedArray, layout: Layout) -> pa.ChunkedArray | pa.Array:
    """Passages, or lists of them, with what ``layout`` puts before each.

    Raises:
        InputError: its means leave that out; training does so for queries alone.
    """
    prefix = layout.passage_prefix()
    if not prefix:
        return passages
    if layout.pooling == "mean" and not layout.pools_prefix:
        raise InputError(
            f"a model that takes {prefix!r} before passages is to leave that out of its mean, which training does for "
            "queries alone: set pool_instruction=true, or start from another model"
        )
    if not pa.types.is_list(passages.type):
        return pc.binary_join_element_wise(prefix, passages.cast(pa.string()), "")
    lists = passages.combine_chunks()
    ends = np.concatenate([[0], np.cumsum(lists.value_lengths())]).astype(np.int32)
    return pa.ListArray.from_arrays(ends, pc.binary_join_element_wise(prefix, lists.flatten().cast(pa.string()), ""))


def general_prefixes(layout: Layout) -> dict[str, str]:
    """What goes before every query and before every passage; instructions of intents are none of it."""
    return {use: layout.prefixes[use] for use in ("query", "passage") if layout.prefixes.get(use)}
