"""Search by vectors in a corpus too large for one process: partitions of ``rank_passages``.

A process reads a shard once, however many blocks of queries it searches it for, and holds one shard at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import inverse
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import checked, matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import RANKINGS
from pipeline_tasks.retrieval.embed_params import is_asked
from pipeline_tasks.retrieval.search import search
from pipeline_tasks.retrieval.shards import (
    ASKED,
    KEYS,
    Merged,
    PartRows,
    found_table,
    joined,
    no_lists,
    part_rows,
    queries_of_corpus,
)

_VECTORS = {"passages": "embedding", "positives": "positive_embedding"}


@dataclass(frozen=True)
class LoadedShard:
    """A shard in memory.

    Attributes:
        ids: distinct passage ids in rising order.
        vectors: float32 [n, d], in the order of the parts.
        keys: place of each among the ids, int32 [n], so that ties go by passage id.
        indexes: of the vectors, by kind: those that were built for a search.
    """

    ids: pa.Array
    vectors: np.ndarray
    keys: np.ndarray
    indexes: dict[str, Any] = field(default_factory=dict)


def with_vectors(queries: Version) -> Version:
    """Those of the queries that have vectors: of the intents that their model was asked."""
    intents, parts = queries.manifest.params.get("intents", ()), range(len(queries.manifest.parts))
    if not intents:
        return queries
    others = [np.flatnonzero(~is_asked(queries.all_rows(number, ["intent"])["intent"], intents)) for number in parts]
    return replace(queries, known=queries.removed.plus(queries.manifest.key, others))


def search_shard(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The best passages of one shard for each query of a block, or for those rows of it that are named."""
    pairs = queries_of_corpus(given, ["query_id", "query_embedding"])
    if "queries" in given.parts:
        pairs = pairs.take(joined(run.store, given.parts["queries"])["row"])
    shard, k = _opened(run.store, given), given.values["depth"]
    k = min(k, len(shard.ids))
    ref = given.rows["pairs"].version.manifest.ref
    queries = _of_width(_vectors(pairs, "query_embedding", str(ref)), shard.vectors.shape[1], str(ref))
    run.count("cosines", len(queries) * len(shard.ids))
    keys, scores = _searched(np.ascontiguousarray(queries), shard, k, given, run)
    yield found_table(shard.ids.take(pa.array(keys.ravel())), scores)


def rank_block(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Rankings of a block of queries, and the cosine of each with its own positive; a table for each part of them."""
    best, ref = _merged(given, run), given.rows["pairs"].version.manifest.ref
    if not given.rows["pairs"].version.manifest.parts:
        yield RANKINGS.table()
    for rows in given.rows["pairs"].tables([*ASKED, "query_embedding", "positive_embedding"]):
        if not len(rows):
            yield RANKINGS.table()
            continue
        queries, own = (_vectors(rows, name, str(ref)) for name in ("query_embedding", "positive_embedding"))
        yield best.ranked(rows).append_column(
            "positive_score", _cosines(queries, _of_width(own, queries.shape[1], ref))
        )


def spare_block(given: Partition, run: Run) -> Iterator[pa.Table]:
    """What comes after the rankings of a block of queries, a table for each part of them."""
    best = _merged(given, run)
    for rows in given.rows["pairs"].tables(ASKED):
        yield best.beyond(rows) if len(rows) else no_lists(0)
    if not given.rows["pairs"].version.manifest.parts:
        yield no_lists(0)


def _merged(given: Partition, run: Run) -> Merged:
    return Merged(run.store, given.parts, given.values["depth"], given.values["spare"])


_IN_MEMORY: dict[str, LoadedShard] = {}


def _opened(store: Store, given: Partition) -> LoadedShard:
    """The shard of a partition; the one that this process opened last stays in memory."""
    left_out, corpus = given.parts["left_out"], given.values["corpus"]
    key = digest({name: given.rows[name].digest for name in KEYS}, [part.sha256 for part in left_out], corpus)
    if key not in _IN_MEMORY:
        _IN_MEMORY.clear()  # before the next one is read, so that there are never two
        _IN_MEMORY[key] = _read(store, list(part_rows(given.rows, corpus)), left_out)
    return _IN_MEMORY[key]


def _read(store: Store, parts: list[PartRows], left_out: Sequence[Part]) -> LoadedShard:
    ends = np.cumsum([len(part.rows) for part in parts])
    kept = np.ones(ends[-1], bool)
    kept[joined(store, left_out)["row"].to_numpy()] = False
    vectors, ids, at = np.empty((0, 0), np.float32), [], 0
    for part, of_it in zip(parts, np.split(kept, ends[:-1]), strict=True):
        if not of_it.any():
            continue
        rows = part.read(KEYS[part.name], _VECTORS[part.name])
        rows = rows if of_it.all() else rows.filter(pa.array(of_it))
        some = _vectors(rows, _VECTORS[part.name], str(part.version.manifest.ref), KEYS[part.name])
        if not at:
            vectors = np.empty((np.count_nonzero(kept), some.shape[1]), np.float32)
        vectors[at : at + len(some)] = _of_width(some, vectors.shape[1], str(part.version.manifest.ref))
        ids += rows.column(0).chunks
        at += len(some)
        del rows, some
    pa.default_memory_pool().release_unused()
    column = pa.chunked_array(ids, pa.string()).combine_chunks()
    order = pc.sort_indices(column)
    return LoadedShard(column.take(order), vectors, inverse(order.to_numpy()))


def _searched(
    queries: np.ndarray, shard: LoadedShard, k: int, given: Partition, run: Run
) -> tuple[np.ndarray, np.ndarray]:
    shards, index = [(shard.vectors, shard.keys)], given.values["index"]
    if index == "exact":
        return search(queries, shards, k)
    if index == "torch":
        from pipeline_tasks.retrieval.torch_search import torch_search

        return torch_search(queries, shards, k)
    from pipeline_tasks.retrieval.faiss_search import build_index, faiss_search

    if index not in shard.indexes:
        shard.indexes[index] = build_index(shard.vectors, index)
    found = faiss_search(queries, shards, k, index, given.values["recall"], shard.indexes[index])
    run.count("sampled_queries", found.n_sampled)
    run.count("recall_of_sample", found.recall * found.n_sampled)
    return found.keys, found.scores


def _vectors(rows: pa.Table, column: str, ref: str, key: str = "query_id") -> np.ndarray:
    return checked(matrix(rows[column]), rows[key], f"{ref} {column}")


def _of_width(vectors: np.ndarray, width: int, ref: object) -> np.ndarray:
    if vectors.shape[1] != width:
        widths = sorted([vectors.shape[1], width])
        raise InputError(f"{ref}: vectors of {widths} numbers are to be compared: encode with one model")
    return vectors


def _cosines(queries: np.ndarray, own: np.ndarray) -> pa.Array:
    from pipeline_tasks.retrieval.scan_kernels import dots

    return pa.array(dots(queries, own, np.arange(len(own), dtype=np.int64)[:, None])[:, 0])
