"""Blocks of queries: what one process chooses a positive or negatives for, and which parts of rankings it reads.

Rankings may lie in other parts than the queries. So which parts hold the queries of a block is looked up by hashes of
their ids, and a block's work names these parts alone: other parts may change without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import list_array, one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows, pieces
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.curation.id_table import HashTable, text_hashes

_HASHES = pa.list_(pa.uint64())
_FOUND = pa.schema([("model", pa.string()), ("first", pa.int64()), ("past", pa.int64())])


@dataclass(frozen=True)
class Block:
    """Some queries in a row.

    Attributes:
        rows: parts that hold them.
        first, past: which of the live rows they are.
    """

    rows: Rows
    first: int
    past: int

    @property
    def values(self) -> dict[str, Any]:
        """For the values of a partition that has its ``rows`` as ``queries``; see :func:`queries_of`."""
        return {"first": self.first, "past": self.past}

    def read(self, columns: list[str]) -> pa.Table:
        """Its rows, each column in one piece; of the others no more than a part is held."""
        kept, at = [], 0
        for table in self.rows.tables(columns):
            begins = max(0, self.first - at)
            kept.append(table.slice(begins, max(0, self.past - at - begins)))
            at += len(table)
        return pa.concat_tables(kept).combine_chunks()


def blocks_of(version: Version, most_rows: int) -> list[Block]:
    """All rows in blocks of whole parts, and a part that is larger than a block in several.

    Raises:
        InputError: the version has no parts, and so no columns to read.
    """
    if not version.manifest.parts:
        raise InputError(
            f"{version.manifest.ref} has no parts: {version.manifest.step} had no input, or refused all of it"
        )
    found = []
    for piece in pieces({"queries": version}, most_rows):
        rows = piece["queries"]
        found += [Block(rows, at, min(at + most_rows, len(rows))) for at in range(0, max(len(rows), 1), most_rows)]
    return found


def queries_of(given: Partition, columns: list[str]) -> pa.Table:
    """The rows of a partition's block, each column in one piece."""
    return Block(given.rows["queries"], given.values["first"], given.values["past"]).read(columns)


def name_ranked(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Hashes of the queries of some rankings, a row for each part."""
    hashes = [text_hashes(table["query_id"]) for table in given.rows["rankings"].tables(["query_id"])]
    flat = np.concatenate([np.empty(0, np.uint64), *hashes])
    yield pa.table({"queries": list_array([*map(len, hashes)], pa.array(flat)).cast(_HASHES)})


def find_ranked(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of each model the first part that ranks a query of the block, and the one past the last."""
    asked, _ = HashTable.of(text_hashes(queries_of(given, ["query_id"])["query_id"]))
    rows = []
    for model, tables in given.parts.items():
        first, past, at = 0, 0, 0
        for part in tables:
            lists = one_array(read_part(run.store, part)["queries"])
            ends = np.asarray(lists.offsets)
            hits = np.flatnonzero(asked.numbers(lists.flatten().to_numpy()) >= 0)
            if len(hits):
                low, high = np.searchsorted(ends, hits[[0, -1]], side="right") - 1 + at
                first, past = (first if past else int(low)), int(high) + 1
            at += len(lists)
        rows.append({"model": model, "first": first, "past": past})
    yield pa.Table.from_pylist(rows, schema=_FOUND)


def ranked_rows(
    blocks: Sequence[Block], rankings: Mapping[str, Version], most_rows: int, run: PartitionedRun
) -> list[dict[str, Rows]]:
    """For each block, by model, the parts of its rankings from the first that holds a query of it to the last."""
    named: dict[str, list[Part]] = {}
    for model, version in rankings.items():
        given = [Partition(piece) for piece in pieces({"rankings": version}, most_rows)]
        named[model] = [part for (part,) in run.spread(name_ranked, given)]
    found = run.spread(find_ranked, [Partition({"queries": block.rows}, named, block.values) for block in blocks])
    tables = (read_part(run.store, part).to_pylist() for (part,) in found)
    return [
        {row["model"]: Rows.between(rankings[row["model"]], row["first"], row["past"]) for row in table}
        for table in tables
    ]


def refuse_unknown(given: Partition, unknown: np.uint64) -> None:
    """Name the passage of that hash which a block's rankings have, and nobody knows.

    Raises:
        InputError: always, but where no ranking has it.
    """
    for model in sorted(set(given.rows) - {"queries"}):
        version = given.rows[model].version
        for rows in version.parts(["passage_ids"]):
            ids = rows["passage_ids"].combine_chunks().flatten()
            at = np.flatnonzero(text_hashes(ids) == unknown)
            if len(at):
                ref = version.manifest.ref
                raise InputError(
                    f"{ref} ranks {ids[int(at[0])]}, which is no passage here; run embed_passages, then rank_passages "
                    "again"
                )
