"""A query's nearest passages as a step that compares them reads them, and the rows of what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import list_array, offsets, one_array, take_by_chunk
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.earlier import earlier_part
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.step import From
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES, RANKINGS

READS: dict[str, RowSchema | From] = {
    "nearest": From(RANKINGS, "nearest/{model}"),
    "pairs": From(INSTRUCTED_PAIRS, "mtp/fret/checked"),
    "passages": PASSAGES,
}
"""Inputs of a step that compares passages."""
_OF_QUERIES = ["query_id", "intent", "instruction", "query", "passage_id", "split"]
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Compared:
    """Queries, each with the passages that are compared for it: its nearest ones, and the one that it was written for.

    Attributes:
        queries: rows of pairs.
        ids: of each query's passages.
        passages: ids and texts of all of them, one query after the other.
    """

    queries: pa.Table
    ids: list[list[str]]
    passages: pa.Table

    @classmethod
    def read(cls, rows: pa.Table, run: Run) -> Compared:
        """Those of rankings that are of the query's split today.

        Rejects: ``other_side`` (a query whose own passage is of another split), ``nothing_to_compare`` (one with its
        own passage alone).

        Raises:
            InputError: the nearest passages are of other pairs or of other passages.
        """
        queries = _rows_with_ids(run, "pairs", "query_id", rows["query_id"], _OF_QUERIES)
        found = [_ids(row) for row in rows.to_pylist()]
        flat = pa.array([i for some in found for i in some], pa.string())
        passages = _rows_with_ids(run, "passages", "passage_id", flat, ["passage_id", "text", "split"])
        kept, ids, stays = [], [], np.zeros(len(flat), bool)
        ends = offsets([*map(len, found)]).tolist()
        for row, query in enumerate(queries.select(["query_id", "passage_id", "split"]).to_pylist()):
            splits, source = passages["split"][ends[row] : ends[row + 1]].to_pylist(), query["passage_id"]
            same = [split == query["split"] for split in splits]
            if not same[own := found[row].index(source)]:
                run.reject(query["query_id"], "other_side", f"{source} is in split {splits[own]}")
            elif sum(same) == 1:
                run.reject(query["query_id"], "nothing_to_compare", f"only {source}")
            else:
                kept.append(row)
                ids.append([*compress(found[row], same)])
                stays[ends[row] : ends[row + 1]] = same
        passages = passages.drop_columns(["split"]).filter(pa.array(stays))
        return cls(queries.take(pa.array(kept, pa.int64())), ids, passages)

    def __len__(self) -> int:
        return len(self.ids)

    def slices(self) -> list[slice]:
        """Where each query's passages are among all."""
        ends = offsets([*map(len, self.ids)]).tolist()
        return [slice(start, end) for start, end in zip(ends, ends[1:], strict=False)]

    def take(self, places: Sequence[int]) -> Compared:
        """Some of the queries, with their passages."""
        slices = self.slices()
        passages = pa.concat_tables([self.passages.slice(slices[i].start, len(self.ids[i])) for i in places])
        return Compared(self.queries.take(pa.array(places)), [self.ids[i] for i in places], passages)

    def ordered_before(self, run: Run) -> pa.Table | None:
        """Rows of the latest version, where it compared the same queries with the same texts: of them nothing changed.

        The part of nearest passages is the same, so that they came in the same order.
        """
        before = earlier_part(run)
        if before is None or not self._are_of(before):
            return None
        run.count("positives_changed", pc.sum(pc.greater(before["source_rank"], 1)).as_py())
        return before

    def _are_of(self, rows: pa.Table) -> bool:
        queries = self.queries.rename_columns({"passage_id": "source_passage_id"})
        ids = rows["passage_ids"].to_pylist()
        same = rows.select(queries.column_names).to_pylist() == queries.to_pylist()
        if not same or [*map(sorted, ids)] != [*map(sorted, self.ids)]:
            return False
        each = zip(self.slices(), self.ids, ids, strict=True)
        places = np.array([mine.start + own.index(name) for mine, own, theirs in each for name in theirs])
        texts = one_array(rows["passages"]).flatten().cast(pa.string())
        return texts.equals(take_by_chunk(self.passages["text"], places))

    def ordered(self, best: Sequence[np.ndarray], found: Mapping[str, pa.Array], run: Run) -> pa.Table:
        """Rows of ``RELABELLED``; how many queries have another positive now is the counter ``positives_changed``.

        Args:
            best: places of each query's passages, best first.
            found: columns of the rows, a value for each passage as it came.
            run: counts.
        """
        sources = zip(self.ids, self.queries["passage_id"].to_pylist(), best, strict=True)
        ranks = [int(np.flatnonzero(order == ids.index(source))[0]) + 1 for ids, source, order in sources]
        run.count("positives_changed", sum(rank > 1 for rank in ranks))
        lengths = [*map(len, self.ids)]
        starts = (mine.start for mine in self.slices())
        places = pa.array(np.concatenate([start + order for start, order in zip(starts, best, strict=True)]))
        columns = {
            "passage_ids": self.passages["passage_id"].combine_chunks(),
            "passages": self.passages["text"].combine_chunks().dictionary_encode(),
            **found,
        }
        table = self.queries.rename_columns({"passage_id": "source_passage_id"}).append_column("source_rank", [ranks])
        for name, values in columns.items():
            table = table.append_column(name, list_array(lengths, values.take(places)))
        return table


def _rows_with_ids(run: Run, name: str, key: str, ids: pa.Array | pa.ChunkedArray, columns: Sequence[str]) -> pa.Table:
    """The rows of an input with these ids, in their order; of those with one id the first.

    Parts that hold one of them are read, in blocks.

    Raises:
        InputError: it has no row of one of them.
    """
    version, wanted = run.inputs[name], pc.unique(ids)
    blocks, places = [], []
    parts = _holding(wanted, *_parts_by_hash(run.store, str(version.manifest.ref), key))
    for block in version.batches(list(columns), _ROWS_AT_ONCE, parts):
        at = pc.index_in(block[key], value_set=wanted)
        blocks.append(block.filter(pc.is_valid(at)))
        places.append(at.drop_null().to_numpy())
    known, first = np.unique(np.concatenate([np.zeros(0, np.int32), *places]), return_index=True)
    row_of = np.full(len(wanted), -1)
    row_of[known] = first
    if (row_of < 0).any():
        refs = run.inputs["nearest"].manifest.ref, version.manifest.ref
        unknown = wanted[int(np.argmin(row_of))]
        raise InputError(f"{refs[0]} names {unknown}, which is not in {refs[1]}: give the versions that were searched")
    rows = row_of[pc.index_in(ids, value_set=wanted).to_numpy()]
    table = pa.concat_tables(blocks) if blocks else pa.table({column: pa.array([], pa.string()) for column in columns})
    return pa.table({column: take_by_chunk(table[column], rows) for column in columns})


@lru_cache(maxsize=2)
def _parts_by_hash(store: Store, ref: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of a version's ids, rising, and the part of each; those of the two versions asked last stay in memory."""
    found = [text_hashes(part[key]) for part in Version.open(store, Ref.parse(ref)).parts([key])]
    hashes = np.concatenate([np.empty(0, np.uint64), *found])
    parts = np.repeat(np.arange(len(found), dtype=np.int32), np.array([*map(len, found)], np.int64))
    order = np.argsort(hashes)
    return hashes[order], parts[order]


def _holding(ids: pa.Array, hashes: np.ndarray, parts: np.ndarray) -> list[int]:
    """The parts that hold an id with the hash of one of these, in order."""
    asked = text_hashes(ids)
    ends = (np.searchsorted(hashes, asked, side).tolist() for side in ("left", "right"))
    return sorted({part for first, past in zip(*ends, strict=True) for part in parts[first:past].tolist()})


def _ids(row: dict[str, Any]) -> list[str]:
    """The nearest passages, and the one that the query was written for."""
    return row["passage_ids"] if row["passage_id"] in row["passage_ids"] else [*row["passage_ids"], row["passage_id"]]
