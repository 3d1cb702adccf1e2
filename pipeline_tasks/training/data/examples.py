"""Training rows and development queries as text, read a block at a time and again from the start when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.errors import InputError

SCHEMA = pa.schema(
    [
        pa.field("query", pa.string()),
        pa.field("prompt", pa.string()),
        pa.field("pooled_prompt", pa.string()),
        pa.field("positive", pa.string()),
        pa.field("negatives", pa.list_(pa.string())),
        pa.field("targets", pa.list_(pa.float32())),
        pa.field("answers", pa.list_(pa.string())),
        pa.field("source", pa.string()),
        pa.field("tuple", pa.string()),
        pa.field("other_instructions", pa.list_(pa.string())),
        pa.field("other_queries", pa.list_(pa.string())),
        pa.field("other_prompts", pa.list_(pa.string())),
    ]
)
"""Columns of a block. Of these ``query`` and ``positive`` must be there.

- ``query``: with the instruction that it is asked with.
- ``prompt``: the instruction that the query begins with, where its vector leaves that out.
- ``pooled_prompt``: the same where its vector is over that, too.
- ``negatives``: hard negatives, hardest first; also of ``list<dictionary>``, where a text is stored once a block.
- ``targets``: a teacher's score of the positive and of each negative, in this order; empty without a teacher.
- ``answers``: further texts that are no wrong answers, such as the query's own words or the passage that it was cut
  from; they count where they are a passage of some row, and otherwise do nothing.
- ``source``: where the row is from, as a mixture names it; of a development row the intent of its query.
- ``tuple``: a name that rows share which are made of the same texts, and so meet in a batch; empty: of none.
- ``other_instructions``: the query with instructions under which the positive does not answer it.
- ``other_queries``: other queries, each with an instruction, that the positive does not answer.
- ``other_prompts``: what ``prompt`` is, of each of ``other_instructions`` and then of ``other_queries``; empty where
  nothing is left out of their vectors.
"""

CONTRASTS = ("other_instructions", "other_queries")
"""Columns of queries that a row's own is told apart from."""


@dataclass(frozen=True)
class Examples:
    """Rows in blocks, and passages that are searched among besides those of the rows.

    Attributes:
        blocks: gives the rows from the start, in the same order every time.
        others: texts of further passages; development sets have them.
    """

    blocks: Callable[[], Iterable[pa.Table]]
    others: Sequence[str] = ()

    @classmethod
    def of(cls, *columns: Any, others: Sequence[str] = (), **named: Any) -> Examples:
        """Rows that are in memory, one block of them: its columns as :func:`block` takes them."""
        return cls(partial(iter, [block(*columns, **named)]), others)


def block(
    queries: Sequence[str] = (),
    positives: Sequence[str] = (),
    negatives: Sequence[Sequence[str]] | pa.Array | pa.ChunkedArray | None = None,
    *,
    prompts: Sequence[str] | None = None,
    pools_prompts: bool = False,
    targets: Sequence[Sequence[float]] | None = None,
    answers: Sequence[Sequence[str]] | pa.Array | None = None,
    sources: Sequence[str] | pa.Array | pa.ChunkedArray | None = None,
    tuples: Sequence[str] | None = None,
    other_instructions: Sequence[Sequence[str]] | None = None,
    other_queries: Sequence[Sequence[str]] | None = None,
    other_prompts: Sequence[Sequence[str]] | None = None,
) -> pa.Table:
    """A block of rows from its columns; ``pools_prompts``: vectors of queries are over their prompts, too.

    Raises:
        InputError: the columns differ in length.
    """
    given: dict[str, Any] = {
        "query": queries, "pooled_prompt" if pools_prompts else "prompt": prompts, "positive": positives,
        "negatives": negatives, "targets": targets, "answers": answers, "source": sources, "tuple": tuples,
        "other_instructions": other_instructions, "other_queries": other_queries,
        "other_prompts": None if pools_prompts else other_prompts,
    }  # fmt: skip
    columns = {name: column for name, column in given.items() if column is not None}
    if len({len(column) for column in columns.values()}) > 1:
        found = ", ".join(f"{len(column)} of {name}" for name, column in columns.items())
        raise InputError(f"training rows need as many values in every column, not {found}")
    ready = (pa.Array, pa.ChunkedArray)
    arrays = {n: c if isinstance(c, ready) else pa.array(c, SCHEMA.field(n).type) for n, c in columns.items()}
    return pa.table(arrays)
