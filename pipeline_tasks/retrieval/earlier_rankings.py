"""Rankings made before, taken over: a refresh searches the new passages alone for queries that are ranked already.

A query's old ranking, minus passages that are gone, is exact for the passages that stayed, as far down as it goes. The
best of it and of the new passages is therefore what a full search gives, unless so many are gone that a passage from
below the old ranking could move up: such a query is searched again. So that this is rare, some passages beyond each
ranking are kept beside the version, as many as are sure: a hint, without which more queries are searched again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.partitions import Partition, Rows, pieces
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.core.versions import Version, read_part, whole
from pipeline_tasks.retrieval.shards import (
    KEYS,
    best_of,
    first_of_each,
    found_table,
    joined,
    no_lists,
    of_corpus,
    rows_where,
)


@dataclass(frozen=True)
class Earlier:
    """Rankings by the same step and parameters, and what they were made of.

    Attributes:
        ranked: sha256 of a part of query embeddings -> the part of rankings that was made of it.
        inputs: by name; of :data:`KEYS`.
    """

    ranked: dict[str, Part]
    inputs: dict[str, Version]

    def spare_key(self, ranked: Part) -> tuple[str, ...]:
        """The key under which the ranks below ``depth`` of a part of its rankings are stored for the next refresh."""
        return spare_key(ranked, [self.inputs[name].manifest.id for name in KEYS])

    @classmethod
    def of(cls, version: Version | None) -> Earlier | None:
        """What ``version`` was made of; None where that is no longer in the store, or there is no such version."""
        if version is None:
            return None
        made, opened = version.manifest, {}
        for name in ("queries", *KEYS):
            there = whole(version.store, Ref.parse(made.inputs[name][0]))
            if there is None:
                return None
            opened[name] = Version(version.store, there)
        queries = opened.pop("queries").manifest.parts
        if len(queries) != len(made.parts):
            return None
        return cls({part.sha256: ranked for part, ranked in zip(queries, made.parts, strict=True)}, opened)

    def shards(self, most_rows: int) -> list[dict[str, Rows]]:
        """The passages that were there, in shards."""
        return pieces(self.inputs, most_rows)

    def rankings_of(self, block: Rows) -> dict[int, Part]:
        """Those parts of a block of queries that were ranked, by number, and their rankings."""
        parts = enumerate(block.version.manifest.parts)
        return {number: self.ranked[part.sha256] for number, part in parts if part.sha256 in self.ranked}


def spare_key(ranked: Part, inputs: Sequence[str]) -> tuple[str, ...]:
    """The key under which the ranks below ``depth`` of a part of rankings are stored for the next refresh.

    It names the part and the versions that it was made of.
    """
    return ("spare", ranked.sha256, *inputs)


def find_new(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of ids of one hash, the rows of each shard that were searched before or are repeats; then the ids that are gone.

    A passage is known where its vector is the same row of the same part; one whose vector moved is gone, and new.
    """
    now, before = ([read_part(run.store, part) for part in given.parts[name]] for name in ("ids", "before"))
    first = first_of_each(now)
    old = pa.concat_tables(before).filter(pa.array(first_of_each(before))).combine_chunks()
    there = pa.concat_tables(now).combine_chunks()
    at = pc.index_in(there["passage_id"].combine_chunks(), value_set=old["passage_id"].combine_chunks())
    at = at.fill_null(-1).to_numpy()
    known = first & (at >= 0)
    for name in ("part", "place"):
        known[known] = there[name].to_numpy()[known] == old[name].to_numpy()[at[known]]
    yield from rows_where(now, known | ~first)
    stays = np.zeros(len(old), bool)
    stays[at[known]] = True
    yield old.select(["passage_id"]).filter(pa.array(~stays))


def take_over(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of a block of queries the rankings that are sure, old ones and new passages merged; rows of the others; theirs.

    Values: ``known`` are the numbers of the parts that were ranked, ``spared`` of those beyond whose rankings more is
    known, ``asked`` how many passages a ranking may have, ``depth`` how many it has in this corpus, and ``wide`` how
    many of it are looked at. What is not sure beyond ``depth`` is left empty.
    """
    known, before, n = _ranked_before(given, run.store)
    run.count("queries_merged", len(known))
    best, sure = found_table(pa.array([], pa.string()), np.empty((0, given.values["wide"]), np.float32)), known[:0]
    if len(known):
        merged, is_sure = _merged(before, known, given, run.store)
        best, sure = merged.filter(pa.array(is_sure)), known[is_sure]
    yield best
    yield pa.table({"row": np.setdiff1d(np.arange(n), sure)})
    yield pa.table({"row": sure})


def fill_in(given: Partition, run: Run) -> Iterator[pa.Table]:
    """What was sure of a block of queries, and what was found for the rest, in the order of the block."""
    sure, rows, rest = (joined(run.store, given.parts[name]) for name in ("sure", "rows", "queries"))
    found = best_of((read_part(run.store, part) for part in given.parts["found"]), given.values["depth"])
    order = np.argsort(pa.concat_tables([rows, rest])["row"].to_numpy())
    yield pa.concat_tables([sure, found]).take(pa.array(order))


def _ranked_before(given: Partition, store: Store) -> tuple[np.ndarray, list[pa.Table], int]:
    """Rows of the block's queries of one corpus that were ranked, their lists, and how many queries there are."""
    of_parts = (("known", "ranked"), ("spared", "spare"))
    ranked, spare = (dict(zip(given.values[n], given.parts[parts], strict=True)) for n, parts in of_parts)
    rows, old, n = [np.empty(0, np.int64)], [], 0
    for number, part in enumerate(given.rows["pairs"].tables(["query_id", "passage_id", "origin"])):
        which = of_corpus(part, given.values["corpus"])
        if len(which) and number in ranked:
            stored = read_part(store, ranked[number], ["query_id", "passage_ids", "scores"])
            names = part["query_id"].take(pa.array(which)).combine_chunks()
            at = pc.index_in(names, value_set=stored["query_id"].combine_chunks())
            rows.append(n + np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False)))
            beyond = read_part(store, spare[number]) if number in spare else no_lists(len(stored))
            for name in ("passage_ids", "scores"):
                stored = stored.append_column(f"more_{name}", beyond[name])
            old.append(stored.drop_columns(["query_id"]).take(at.drop_null()))
        n += len(which)
    return np.concatenate(rows), old, n


def _merged(before: list[pa.Table], known: np.ndarray, given: Partition, store: Store) -> tuple[pa.Table, np.ndarray]:
    """The best of old lists and new passages, empty where they are not sure, and whose rankings are."""
    asked, depth, wide = (given.values[name] for name in ("asked", "depth", "wide"))
    old = pa.concat_tables(before).combine_chunks()
    ids, scores = one_array(old["passage_ids"]).flatten(), matrix(old["scores"])
    width = max(1, wide - scores.shape[1], pc.max(pc.list_value_length(old["more_scores"])).as_py())
    more_ids, more = _padded(old["more_passage_ids"], width, ""), _padded(old["more_scores"], width, -np.inf)
    more_scores = more.to_numpy().reshape(-1, width)
    gone = joined(store, given.parts["gone"])["passage_id"].combine_chunks()
    struck = [_without(gone, ids, scores), _without(gone, more_ids, more_scores)]
    found = (read_part(store, part).take(pa.array(known)) for part in given.parts["found"])
    best = best_of(chain((table for table, _ in struck), found), wide)
    n_more = np.isfinite(more_scores).sum(axis=1)
    lowest = np.where(n_more, more_scores[np.arange(len(known)), n_more - 1], scores[:, -1])
    n_sure = (matrix(best["scores"]) > lowest[:, None]).sum(axis=1)
    n_known = scores.shape[1] + n_more
    n_sure = np.where(struck[0][1] | struck[1][1], n_sure, np.maximum(n_sure, n_known))
    if scores.shape[1] < asked:  # the old rankings had all passages
        n_sure[:] = wide
    empty = np.arange(wide) >= np.maximum(n_sure, depth)[:, None]
    return _emptied(one_array(best["passage_ids"]).flatten(), matrix(best["scores"]), empty), n_sure >= depth


def _without(gone: pa.Array, ids: pa.Array, scores: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Lists in which places of passages that are gone are empty, and which of them have such places."""
    lost = pc.is_in(ids, value_set=gone).to_numpy(zero_copy_only=False).reshape(scores.shape)
    return _emptied(ids, scores, lost), lost.any(axis=1)


def _emptied(ids: pa.Array, scores: np.ndarray, places: np.ndarray) -> pa.Table:
    return found_table(pc.if_else(pa.array(places.ravel()), "", ids), np.where(places, np.float32(-np.inf), scores))


def _padded(column: pa.ChunkedArray, width: int, filler: object) -> pa.Array:
    """Lists of at most ``width`` values in one array, filled up."""
    return pc.list_slice(one_array(column), 0, width, return_fixed_size_list=True).flatten().fill_null(filler)
