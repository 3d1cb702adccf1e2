"""Rankings made before, taken over: a refresh searches the new passages alone for queries that are ranked already.

A query's old ranking, minus passages that are gone, is exact for the passages that stayed, as far down as it goes. The
best of it and of the new passages is therefore what a full search gives, unless so many are gone that a passage from
below the old ranking could move up: such a query is searched again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.parts import read_part
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.retrieval.corpus import DOMAIN, Corpus, by_corpus, distinct_keys
from pipeline_tasks.retrieval.search import NO_KEY, Shard, merge


@dataclass(frozen=True)
class EarlierRankings:
    """What is still true of old rankings of some queries.

    Attributes:
        rows: of the queries that were ranked, places among those asked for, [q].
        keys: places in the corpus of today, [q, old depth]; NO_KEY where a passage is gone.
        scores: float32, -inf there.
        least: [q]; no passage below the old ranking scores more; -inf where nothing was below it.
        new: passages that the old rankings do not know, as shards.
    """

    rows: np.ndarray
    keys: np.ndarray
    scores: np.ndarray
    least: np.ndarray
    new: list[Shard]

    def merged(self, found: tuple[np.ndarray, np.ndarray], depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best of old rankings and of what was ``found`` among the new passages, and which rows are sure.

        Shapes: keys and scores [q, depth], sure [q].
        """
        keys, scores = merge([(self.keys, self.scores), found], depth)
        whole = (self.keys != NO_KEY).all(axis=1)
        return keys, scores, whole | (scores[:, -1] > self.least) | np.isneginf(self.least)


def earlier_rankings(
    before: Version, part: Part, asked: pa.Array, searched: tuple[str, Corpus], now: tuple[str, ...]
) -> EarlierRankings | None:
    """What version ``before`` of the rankings says of the queries ``asked``, which are rows of ``part``.

    Args:
        before: rankings by the same step and parameters.
        part: of the query embeddings; the old ranking of a query counts where it was made of this very part.
        asked: query ids, all of one corpus.
        searched: name of that corpus, and its passages of today.
        now: the versions they are of: passages, positives.

    Returns:
        None where the old version ranked nothing of this part, or is no longer whole in the store.
    """
    try:
        queries, passages, positives = (
            Version.open(before.store, Ref.parse(before.manifest.inputs[name][0]))
            for name in ("queries", "passages", "positives")
        )
    except InputError:
        return None
    shas = [known.sha256 for known in queries.manifest.parts]
    if part.sha256 not in shas or len(shas) != len(before.manifest.parts):
        return None
    made = before.manifest.parts[shas.index(part.sha256)]
    stored = read_part(before.store, made, ["query_id", "passage_ids", "scores"])
    at = pc.index_in(asked, value_set=stored["query_id"].combine_chunks())
    stored = stored.take(at.drop_null()).combine_chunks()
    ids, values = (stored[name].combine_chunks().flatten() for name in ("passage_ids", "scores"))
    if not len(ids):
        return None
    name, corpus = searched
    n_before, kept = _kept(before.store, (str(passages.manifest.ref), str(positives.manifest.ref)), now)[name]
    keys = pc.index_in(ids, value_set=corpus.ids).fill_null(-1).to_numpy().reshape(stored.num_rows, -1)
    scores = values.to_numpy().reshape(keys.shape)
    there = (keys >= 0) & kept[keys]
    return EarlierRankings(
        np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False)),
        np.where(there, keys, NO_KEY).astype(np.int32),
        np.where(there, scores, np.float32(-np.inf)),
        scores[:, -1] if keys.shape[1] < n_before else np.full(len(keys), -np.inf, np.float32),
        [shard for shard in _without(corpus.shards, kept) if len(shard[1])],
    )


def _without(shards: list[Shard], kept: np.ndarray) -> Iterator[Shard]:
    for vectors, keys in shards:
        new = (keys >= 0) & ~kept[keys]
        yield vectors[new], keys[new]


@lru_cache(maxsize=1)
def _kept(store: Store, then: tuple[str, ...], now: tuple[str, ...]) -> dict[str, tuple[int, np.ndarray]]:
    """By corpus: number of its passages then; whether each of today's, in the order of its id, has its old vector."""
    old, found = _places(store, then), {}
    for name, (ids, place) in _places(store, now).items():
        old_ids, old_place = old.get(name, (ids[:0], place[:0]))
        at = pc.index_in(ids, value_set=old_ids).fill_null(-1).to_numpy()
        kept = at >= 0
        kept[kept] = place[kept] == old_place[at[kept]]
        found[name] = len(old_ids), kept
    return found


def _places(store: Store, refs: tuple[str, ...]) -> dict[str, tuple[pa.Array, np.ndarray]]:
    """By corpus: distinct passage ids in rising order; where the vector of each lies: sha256 of the part, and row."""
    found: dict[str, tuple[list[pa.Array], list[np.ndarray]]] = {}
    for ref, key, columns in zip(refs, ("passage_id", "positive_id"), ((), ("passage_id", "origin")), strict=True):
        version = Version.open(store, Ref.parse(ref))
        for index, part in enumerate(version.manifest.parts):
            live = version.part(index, list(dict.fromkeys((key, *columns))))
            row = np.delete(np.arange(part.rows), version.removed.rows(index))
            for name, which in by_corpus(live) if columns else [(DOMAIN, np.arange(live.num_rows))]:
                ids, places = found.setdefault(name, ([], []))
                ids.append(live[key].combine_chunks().take(pa.array(which)))
                places.append(np.rec.fromarrays([np.full(len(which), part.sha256, "S64"), row[which]]))
    return {name: _ordered(*parts) for name, parts in found.items()}


def _ordered(ids: list[pa.Array], places: list[np.ndarray]) -> tuple[pa.Array, np.ndarray]:
    distinct, keys = distinct_keys(ids)
    found = np.concatenate(places)
    ordered = np.empty(len(distinct), found.dtype)
    ordered[keys[keys >= 0]] = found[keys >= 0]
    return distinct, ordered
