"""What a query is ranked against: the passages of its own corpus alone.

The domain's corpus is the PDF passages and the positives of pairs that were made of them. Pairs from elsewhere bring
their own: the positives of their origin (DMRetriever 3.4.3, "the associated passage corpus").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import checked, matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.retrieval.search import Shard

DOMAIN = ""


@dataclass(frozen=True)
class Corpus:
    """Passages to search.

    Attributes:
        ids: distinct passage ids in rising order; a key is a place in it, so that ties go by passage id.
        shards: vectors and keys of each part; of an id that comes twice the first is searched.
    """

    ids: pa.Array
    shards: list[Shard]

    @property
    def width(self) -> int:
        """Numbers per vector."""
        return self.shards[0][0].shape[1] if self.shards else 0


def by_corpus(pairs: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """The corpora of these pairs, and which rows are of each: :data:`DOMAIN`, or an origin's name."""
    ours = pc.not_equal(pairs["passage_id"].fill_null(""), "")
    names = pc.if_else(ours, DOMAIN, pairs["origin"].fill_null(DOMAIN)).combine_chunks().dictionary_encode()
    for number, name in enumerate(names.dictionary.to_pylist()):
        yield name, np.flatnonzero(names.indices.to_numpy() == number)


@lru_cache(maxsize=1)
def open_corpora(store: Store, passages: str, positives: str = "") -> dict[str, Corpus]:
    """The corpora of these versions, ``dataset@version``, by name; those opened last stay in memory.

    Raises:
        InputError: vectors of different widths, zero or not finite.
    """
    found: dict[str, list[tuple[pa.Array, np.ndarray]]] = {}
    for part in _parts(store, passages, ["passage_id", "embedding"]):
        found.setdefault(DOMAIN, []).append(_named(part["passage_id"], part["embedding"], passages))
    for part in (
        _parts(store, positives, ["positive_id", "positive_embedding", "passage_id", "origin"]) if positives else ()
    ):
        for name, rows in by_corpus(part):
            some = part if len(rows) == part.num_rows else part.take(pa.array(rows))
            found.setdefault(name, []).append(_named(some["positive_id"], some["positive_embedding"], positives))
    widths = {vectors.shape[1] for parts in found.values() for _, vectors in parts}
    if len(widths) > 1:
        raise InputError(f"{passages} and {positives} hold vectors of {sorted(widths)} numbers: encode with one model")
    return {name: _corpus(parts) for name, parts in found.items()}


def _parts(store: Store, ref: str, columns: list[str]) -> Iterator[pa.Table]:
    return (part for part in Version.open(store, Ref.parse(ref)).parts(columns) if part.num_rows)


def _named(ids: pa.ChunkedArray, vectors: pa.ChunkedArray, source: str) -> tuple[pa.Array, np.ndarray]:
    return ids.combine_chunks(), checked(matrix(vectors), ids, source)


def _corpus(parts: list[tuple[pa.Array, np.ndarray]]) -> Corpus:
    distinct, keys = distinct_keys([ids for ids, _ in parts])
    starts = np.cumsum([0, *(len(ids) for ids, _ in parts)])
    return Corpus(distinct, [(v, keys[at : at + len(v)]) for (_, v), at in zip(parts, starts, strict=False)])


def distinct_keys(parts: list[pa.Array]) -> tuple[pa.Array, np.ndarray]:
    """Distinct ids in rising order, and each row's place among them; -1 where an id was seen before."""
    if not any(map(len, parts)):
        return pa.array([], pa.string()), np.empty(0, np.int32)
    coded = pa.chunked_array(parts).dictionary_encode().unify_dictionaries()
    distinct = coded.chunk(0).dictionary
    order = pc.sort_indices(distinct)
    place = np.empty(len(distinct), np.int32)
    place[order.to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    keys = np.full(len(codes), -1, np.int32)
    first = np.unique(codes, return_index=True)[1]
    keys[first] = place[codes[first]]
    return distinct.take(order), keys
