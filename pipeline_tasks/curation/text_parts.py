"""Second pass of ``mutual_agreement`` and ``mine_negatives``: passages were chosen by id, now rows get their texts.

Each part of the result has the same number of rows, in the order of the queries. What was chosen for a block of queries
says where its texts lie, so that the partition of a part reads the parts that hold them, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.curation.blocks import Block
from pipeline_tasks.curation.passage_facts import COLUMNS, part_number


@dataclass(frozen=True)
class ChosenRows:
    """What was chosen for a block of queries.

    Attributes:
        block: the queries.
        tables: those of the chosen rows, by name.
        n: number of these rows.
        held_by: numbers of the parts that hold their texts.
    """

    block: Block
    tables: Mapping[str, Part]
    n: int
    held_by: set[int]


def text_partitions(inputs: Inputs, chosen: Sequence[ChosenRows], most_rows: int) -> list[Partition]:
    """What each part of the version is made of; none where nothing was chosen.

    Each has the blocks' tables by name, the parts with texts as in :data:`COLUMNS`, and as ``first`` and ``past`` which
    of the rows of these blocks are its own.
    """
    total = sum(one.n for one in chosen)
    return [_partition(inputs, chosen, at, min(at + most_rows, total)) for at in range(0, total, most_rows)]


def _partition(inputs: Inputs, chosen: Sequence[ChosenRows], first: int, past: int) -> Partition:
    touched: list[ChosenRows] = []
    at, skipped = 0, 0
    for one in chosen:
        if at < past and at + one.n > first:
            touched.append(one)
            skipped = at if len(touched) == 1 else skipped
        at += one.n
    numbers = set().union(*(one.held_by for one in touched))
    held = {name: [p for p in inputs[name].manifest.parts if part_number(p) in numbers] for name in COLUMNS}
    return Partition(
        {f"queries {place}": one.block.rows for place, one in enumerate(touched)},
        {name: [one.tables[name] for one in touched] for name in touched[0].tables} | held,
        {"first": first - skipped, "past": past - skipped}
        | {"blocks": [[one.block.first, one.block.past] for one in touched]},
    )


def queries_of_blocks(given: Partition, columns: list[str]) -> Iterator[pa.Table]:
    """The queries of each block that a part spans."""
    for at, (first, past) in enumerate(given.values["blocks"]):
        yield Block(given.rows[f"queries {at}"], first, past).read(columns)


def own_rows(given: Partition, tables: Sequence[pa.Table]) -> pa.Table:
    """Of a table for each block that a part spans the rows that are its own."""
    first, past = given.values["first"], given.values["past"]
    return pa.concat_tables(tables).slice(first, past - first).combine_chunks()
