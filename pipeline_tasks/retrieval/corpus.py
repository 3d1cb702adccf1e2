"""What a query is ranked against: PDF passages and generated positives of one model, in the parts they come in."""

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


@lru_cache(maxsize=1)
def open_corpus(store: Store, passages: str, positives: str) -> Corpus:
    """The corpus of two versions, ``dataset@version``; the last one opened stays in memory.

    Raises:
        InputError: vectors of different widths, zero or not finite.
    """
    ids, vectors = [], []
    for part_ids, part in _parts(Version.open(store, Ref.parse(passages)), "passage_id", "embedding"):
        ids.append(part_ids)
        vectors.append(part)
    for part_ids, part in _parts(Version.open(store, Ref.parse(positives)), "positive_id", "positive_embedding"):
        ids.append(part_ids)
        vectors.append(part)
    widths = {part.shape[1] for part in vectors}
    if len(widths) > 1:
        raise InputError(f"{passages} and {positives} hold vectors of {sorted(widths)} numbers: encode with one model")
    distinct, keys = distinct_keys(ids)
    starts = np.cumsum([0, *map(len, ids)])
    return Corpus(distinct, [(v, keys[at : at + len(v)]) for v, at in zip(vectors, starts, strict=False)])


def _parts(version: Version, key: str, column: str) -> Iterator[tuple[pa.Array, np.ndarray]]:
    for part in version.parts([key, column]):
        if part.num_rows:
            ids = part[key].combine_chunks()
            yield ids, checked(matrix(part[column]), ids, str(version.manifest.ref))


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
