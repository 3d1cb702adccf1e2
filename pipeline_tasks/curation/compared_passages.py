"""A query's nearest passages as a step that compares them reads them, and the rows of what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import list_array, offsets, one_array, take_by_chunk
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.earlier import earlier_version
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

    def scores(
        self, names: Sequence[str], score: Callable[[Compared], Sequence[np.ndarray]], run: Run, *free: str
    ) -> np.ndarray:
        """What a model says of each passage; where the latest version has it for the same texts, it is not asked.

        How many passages it was asked about is the counter ``passages_compared``.

        Args:
            names: columns of ``RELABELLED`` that hold what it says.
            score: asks it about all passages of these queries: a column of numbers for each name.
            run: counts.
            free: parameters that have no say in the scores.

        Shapes: returns [names, n], float32.
        """
        found = self._scores_before(names, run, free)
        new = np.flatnonzero(np.isnan(found).any(axis=0))
        if len(new):
            found[:, new] = score(self._only(new))
        run.count("passages_compared", len(new))
        return found

    def _scores_before(self, names: Sequence[str], run: Run, free: Sequence[str]) -> np.ndarray:
        """The same by the latest version, NaN where it does not have query, task and passage in these words."""
        found = np.full((len(names), len(self.passages)), np.nan, np.float32)
        before = earlier_version(run, *free)
        if before is None:
            return found
        own = _pair_hashes(self.queries, [*map(len, self.ids)], text_hashes(self.passages["text"]))
        parts = _holding(self.queries["query_id"], *_parts_by_hash(run.store, str(before.manifest.ref), "query_id"))
        for rows in before.batches(["query", "instruction", "passages", *names], _ROWS_AT_ONCE, parts):
            lists = one_array(rows["passages"])
            texts = lists.flatten()
            of_texts = text_hashes(texts.dictionary)[texts.indices.to_numpy()]
            theirs = _pair_hashes(rows, pc.list_value_length(lists).to_numpy(), of_texts)
            at = pc.index_in(pa.array(own), value_set=pa.array(theirs))
            for row, name in enumerate(names):
                scores = one_array(rows[name]).flatten().to_numpy(zero_copy_only=False)
                found[row, at.is_valid().to_numpy(zero_copy_only=False)] = scores[at.drop_null().to_numpy()]
        return found

    def _only(self, places: np.ndarray) -> Compared:
        """These of the passages, with their queries."""
        owners = np.repeat(np.arange(len(self)), [*map(len, self.ids)])
        queries, lengths = np.unique(owners[places], return_counts=True)
        passages = pa.table({name: take_by_chunk(self.passages[name], places) for name in self.passages.column_names})
        ids = list_array(lengths, one_array(passages["passage_id"])).to_pylist()
        return Compared(self.queries.take(pa.array(queries)), ids, passages)

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


def _pair_hashes(queries: pa.Table, lengths: Sequence[int] | np.ndarray, texts: np.ndarray) -> np.ndarray:
    """64 bits of each pair of a query, with its task, and a passage. Shapes: texts [n], hashes; returns [n]."""
    asked = [np.repeat(text_hashes(queries[name]), lengths) for name in ("query", "instruction")]
    return asked[0] + np.uint64(3) * asked[1] + np.uint64(5) * texts


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


@lru_cache(maxsize=3)
def _parts_by_hash(store: Store, ref: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of a version's ids, rising, and the part of each; three versions' stay in memory, those asked last."""
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
