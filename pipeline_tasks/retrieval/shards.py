"""Search in a corpus too large for one process: what the partitions of all rankers share.

Passages are cut into shards, queries into blocks; a partition searches one shard for one block, and the top k of all
shards are merged, equal scores by passage id. Ids are compared a hash at a time, so that of an id that comes twice one
passage is searched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import inverse, list_array, one_array
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows, dealt
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import lists, matrix
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.retrieval.corpora import DOMAIN, by_corpus, distinct_keys
from pipeline_tasks.retrieval.search import merge

ASKED = ["query_id", "passage_id", "doc_id", "intent", "origin"]
"""Columns of a query that its ranking is made with."""
_OF_CORPUS = ["passage_id", "origin"]
KEYS = {"passages": "passage_id", "positives": "positive_id"}
"""What a shard holds, in its order, and the column of the ids."""


@dataclass(frozen=True)
class Shard:
    """Some of a corpus.

    Attributes:
        rows: of :data:`KEYS`.
        left_out: tables of rows of it that are not searched.
        n: passages that are.
    """

    rows: Mapping[str, Rows]
    left_out: Sequence[Part]
    n: int


@dataclass(frozen=True)
class PartRows:
    """What a part of a shard holds of one corpus.

    Attributes:
        name: of the version, one of :data:`KEYS`.
        rows: places among the live rows of the part.
    """

    name: str
    version: Version
    number: int
    rows: np.ndarray

    def read(self, *columns: str) -> pa.Table:
        """Its rows."""
        found = self.version.part(self.number, list(columns))
        return found if len(found) == len(self.rows) else found.take(pa.array(self.rows))

    def ids(self) -> pa.Table:
        """Ids, and where each lies in the store: the first 16 digits of the part's sha256, and the row of the part."""
        part = self.version.manifest.parts[self.number]
        stored = np.delete(np.arange(part.rows, dtype=np.int32), self.version.removed.rows(self.number))
        sha256 = np.full(len(self.rows), int(part.sha256[:16], 16), np.uint64)
        ids = self.read(KEYS[self.name]).column(0)
        return pa.table({"passage_id": ids, "part": sha256, "place": stored[self.rows]})


def part_rows(rows: Mapping[str, Rows], corpus: str) -> Iterator[PartRows]:
    """The parts of a shard."""
    for name in KEYS:
        version = rows[name].version
        for number, part in enumerate(version.manifest.parts):
            if name == "positives":
                of_it = of_corpus(version.part(number, ["positive_id", *_OF_CORPUS]), corpus)
            else:
                of_it = np.arange((part.rows - len(version.removed.rows(number))) if corpus == DOMAIN else 0)
            yield PartRows(name, version, number, of_it)


def name_passages(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Ids of a shard's passages, their rows in it and their places, one table for each hash of an id."""
    ids = pa.concat_tables(part.ids() for part in part_rows(given.rows, given.values["corpus"])).combine_chunks()
    ids = ids.append_column("row", pa.array(np.arange(len(ids), dtype=np.int32)))
    yield from by_hash(ids, given.values["hashes"])


def find_repeats(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of ids of one hash, the rows of each shard whose id comes in an earlier row or shard."""
    shards = [read_part(run.store, part) for part in given.parts["ids"]]
    yield from rows_where(shards, ~first_of_each(shards))


def first_of_each(shards: Sequence[pa.Table]) -> np.ndarray:
    """Whether no row before has the same id, over the rows of all shards."""
    return distinct_keys([shard["passage_id"].combine_chunks() for shard in shards])[1] >= 0


def rows_where(shards: Sequence[pa.Table], mask: np.ndarray) -> Iterator[pa.Table]:
    """A table of rows for each shard; the mask is over the rows of all."""
    ends = np.cumsum([len(shard) for shard in shards])
    for shard, some in zip(shards, np.split(mask, ends[:-1]), strict=True):
        yield shard.select(["row"]).filter(pa.array(some))


def hashes_of(shards: Sequence[object]) -> int:
    """Into how many hashes ids and words are cut: of eight shards one, since they are small beside texts and vectors.

    By powers of two, so that a refresh which adds a shard seldom changes what all others are cut into.
    """
    return 1 << max(0, (len(shards) - 1).bit_length() - 3)


def ids_by_hash(given: Sequence[Mapping[str, Rows]], corpus: str, hashes: int, run: PartitionedRun) -> list[list[Part]]:
    """Of each shard the tables of ids, one for each hash."""
    values = {"corpus": corpus, "hashes": hashes}
    return run.spread(name_passages, [Partition(shard, values=values) for shard in given])


def distinct(given: Sequence[Mapping[str, Rows]], ids: Sequence[Sequence[Part]], run: PartitionedRun) -> list[Shard]:
    """Those of the shards that hold passages, without repeats; ``ids`` as from :func:`ids_by_hash`."""
    found = run.spread(find_repeats, [Partition(parts={"ids": of_hash}) for of_hash in zip(*ids, strict=True)])
    return without(given, ids, zip(*found, strict=True))


def without(
    given: Sequence[Mapping[str, Rows]], ids: Iterable[Sequence[Part]], left_out: Iterable[Sequence[Part]]
) -> list[Shard]:
    """Those of the shards that hold more than is left out of them."""
    found = [
        Shard(rows, left, sum(part.rows for part in names) - sum(part.rows for part in left))
        for rows, names, left in zip(given, ids, left_out, strict=True)
    ]
    return [shard for shard in found if shard.n]


def corpora(blocks: Iterable[Mapping[str, Rows]]) -> dict[str, dict[int, int]]:
    """Of each corpus, by name, the blocks that have queries of it, and how many."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for at, block in enumerate(blocks):
        for some in filter(len, block["pairs"].tables(_OF_CORPUS)):
            for name, rows in by_corpus(some):
                found[name][at] += len(rows)
    return {name: dict(found[name]) for name in sorted(found)}


def queries_of_corpus(given: Partition, columns: list[str]) -> pa.Table:
    """Queries of one corpus in a block."""
    wanted = [*columns, *(name for name in _OF_CORPUS if name not in columns)]
    found = pa.concat_tables(given.rows["pairs"].tables(wanted)).combine_chunks()
    return found.take(pa.array(of_corpus(found, given.values["corpus"]))).select(columns).combine_chunks()


def of_corpus(pairs: pa.Table, corpus: str) -> np.ndarray:
    """Those rows of pairs that are of one corpus."""
    return dict(by_corpus(pairs)).get(corpus, np.empty(0, np.int64)) if len(pairs) else np.empty(0, np.int64)


class Merged:
    """The best of all shards for a block of queries, taken in the order of its rows.

    Args:
        store: holds the tables.
        found: by corpus, a table of every shard with the best passages of each query.
        depth: passages of a ranking.
        spare: passages that are looked at beyond it.
    """

    def __init__(self, store: Store, found: Mapping[str, Sequence[Part]], depth: int, spare: int = 0) -> None:
        tables = {name: (read_part(store, part) for part in parts) for name, parts in found.items()}
        self._best = {name: best_of(of_corpus, depth + spare) for name, of_corpus in tables.items()}
        self._depth, self._at = depth, Counter[str]()

    def ranked(self, rows: pa.Table) -> pa.Table:
        """Rankings of the next rows, of which the columns of :data:`ASKED` count.

        Raises:
            RuntimeError: a ranking has a place without a passage.
        """
        found = self._of(rows)
        for place, name in enumerate(("passage_ids", "scores")):
            found = found.set_column(place, name, pc.list_slice(found[name], 0, self._depth))
        _refuse_gaps(found)
        rows = rows.select(ASKED).drop_columns(["origin"])
        for name in found.column_names:
            rows = rows.append_column(name, found[name])
        return rows

    def beyond(self, rows: pa.Table) -> pa.Table:
        """What comes after the rankings of the next rows, as far as it is known."""
        found = self._of(rows)
        ids, scores = (pc.list_slice(found[name], self._depth) for name in ("passage_ids", "scores"))
        names = one_array(ids).flatten()
        known = pc.not_equal(names, "").to_numpy(zero_copy_only=False)
        of_row = np.repeat(np.arange(len(ids)), pc.list_value_length(ids).to_numpy())
        lengths = np.bincount(of_row[known], minlength=len(ids))
        values = (names.filter(pa.array(known)), one_array(scores).flatten().filter(pa.array(known)))
        columns = [list_array(lengths, some) for some in values]
        return pa.table(columns, ["passage_ids", "scores"])

    def _of(self, rows: pa.Table) -> pa.Table:
        ranked, places = [], []
        for name, which in by_corpus(rows):
            ranked.append(self._best[name].slice(self._at[name], len(which)))
            places.append(which)
            self._at[name] += len(which)
        return pa.concat_tables(ranked).take(pa.array(np.argsort(np.concatenate(places)))).combine_chunks()


def _refuse_gaps(found: pa.Table) -> None:
    ids, scores = (one_array(found[name]).flatten() for name in ("passage_ids", "scores"))
    if pc.any(pc.equal(ids, "")).as_py() or np.isneginf(scores.to_numpy()).any():
        raise RuntimeError("a ranking has a place without a passage: the step is wrong, and commits nothing; report it")


def best_of(shards: Iterable[pa.Table], depth: int) -> pa.Table:
    """The best ``depth`` of searches of the same queries in different shards; equal scores by passage id."""
    shards = iter(shards)
    best = next(shards)
    for shard in shards:
        best = _better(best, shard, depth) if len(best) else best
    return best


def _better(one: pa.Table, two: pa.Table, depth: int) -> pa.Table:
    n, ids = len(one), [one_array(table["passage_ids"]).flatten() for table in (one, two)]
    coded = pa.chunked_array(ids).combine_chunks().dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    keys = np.split(inverse(order.to_numpy())[coded.indices.to_numpy()], [len(ids[0])])
    found = [(key.reshape(n, -1), matrix(t["scores"])) for key, t in zip(keys, (one, two), strict=True)]
    best, scores = merge(found, depth)
    names = coded.dictionary.take(order).take(pa.array(best.ravel()))
    made = found_table(names, scores)
    if "positive_score" not in one.column_names:
        return made
    own = [table["positive_score"].to_numpy() for table in (one, two)]
    return made.append_column("positive_score", pa.array(np.where(np.isnan(own[0]), own[1], own[0])))


def no_lists(n: int) -> pa.Table:
    """Empty lists of that many queries."""
    ends = pa.array(np.zeros(n + 1, np.int32))
    kinds = {"passage_ids": pa.string(), "scores": pa.float32()}
    return pa.table({name: pa.ListArray.from_arrays(ends, pa.array([], kind)) for name, kind in kinds.items()})


def found_table(ids: pa.Array, scores: np.ndarray) -> pa.Table:
    """What a search found.

    Shapes: ids [q * k]; scores [q, k].
    """
    ends = pa.array(np.arange(len(scores) + 1, dtype=np.int32) * scores.shape[1])
    return pa.table({"passage_ids": pa.ListArray.from_arrays(ends, ids), "scores": lists(scores)})


def joined(store: Store, parts: Sequence[Part]) -> pa.Table:
    """The rows of some tables, one after another."""
    return pa.concat_tables(read_part(store, part) for part in parts)


def by_hash(table: pa.Table, n: int) -> Iterator[pa.Table]:
    """The rows of ``table`` by the hash of the text in its first column, a table for each of ``n`` hashes."""
    hashes = np.array([crc32(text.encode()) % n for text in table.column(0).to_pylist()], np.int64)
    yield from dealt(table, hashes, n)
