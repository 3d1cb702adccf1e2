"""Documents compared a group at a time: partitions of ``cluster_documents``, of which none holds the corpus.

Two documents are *neighbours* where they share a key of a band. Whom a document repeats depends on those alone that it
is connected with, over neighbours of neighbours. So keys meet by their hash, the neighbours that they name are
united, and sketches of connected documents move to one group, which is clustered by itself. What is found does not
depend on the number of groups. A document is known by its place in the order of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.texts.clusters import cluster, shared_buckets, united
from pipeline_tasks.texts.minhash import band_keys, band_rows

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SKETCHED = pa.schema({"place": pa.int64(), "signature": pa.list_(pa.uint32()), "shingles": pa.list_(pa.uint64())})
_REPEATS = pa.schema({"place": pa.int64(), "original": pa.int64(), "jaccard": pa.float64()})
_NO_KEYS = np.zeros((1, 0), np.uint64)


def places_of(sketches: Rows) -> list[int]:
    """Where each part's live rows begin among those of all, and after the last one how many there are."""
    version = sketches.version
    removed = (len(version.removed.rows(index)) for index in range(len(version.manifest.parts)))
    live = (part.rows - gone for part, gone in zip(version.manifest.parts, removed, strict=True))
    return list(accumulate(live, initial=0))


def key_bands(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The key of every band of every document of ``sketches``, a table for each of ``groups`` ranges of keys.

    Values: ``threshold`` and ``groups``.
    """
    parts = [part for part in given.rows["sketches"].tables(["signature"]) if part.num_rows]
    found = np.concatenate([_keys(p["signature"], given.values["threshold"]) for p in parts] or [_NO_KEYS], axis=1)
    bands, rows = np.indices(found.shape)
    keys = ((found + bands.astype(np.uint64) * _MIX) * _MIX).ravel()
    ranges = _dealt(keys, given.values["groups"])
    for group in range(given.values["groups"]):
        some = ranges == group
        yield pa.table({"key": keys[some], "row": rows.ravel()[some]})


def find_neighbours(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Each document that has the key of an earlier one, beside the first that has it.

    Parts: ``keys`` of one range, a table of :func:`key_bands` of every shard. Values: ``places``, where the shards
    begin and the last one ends.
    """
    tables = [read_part(run.store, part) for part in given.parts["keys"]]
    firsts = zip(tables, given.values["places"], strict=False)
    keys = np.concatenate([table["key"].to_numpy() for table in tables])
    places = np.concatenate([table["row"].to_numpy() + first for table, first in firsts])
    order = np.argsort(keys, kind="stable")
    keys, places = keys[order], places[order]
    begins = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    first = places[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    yield pa.table({"place": places[~begins], "neighbour": first[~begins]})


def unite_neighbours(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Which documents have neighbours, and in which group those are that they are connected with; a table a shard.

    Parts: ``neighbours`` of every range of keys. Values: ``places``, where the shards begin and the last one ends, and
    ``groups``.
    """
    places = given.values["places"]
    tables = (read_part(run.store, part) for part in given.parts["neighbours"])
    pairs = ((table["place"].to_numpy(), table["neighbour"].to_numpy()) for table in tables)
    roots = united(places[-1], pairs)
    connected = np.flatnonzero(np.bincount(roots, minlength=places[-1])[roots] > 1)
    groups = _dealt(roots[connected].astype(np.uint64) * _MIX, given.values["groups"])
    for first, last in pairwise(places):
        here = slice(*np.searchsorted(connected, [first, last]))
        yield pa.table({"place": connected[here], "group": groups[here]})


def deal_sketches(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Those documents of ``sketches`` that have neighbours, a table for each of ``groups``.

    Parts that have none of them are not read. Parts: ``connected``, one table of :func:`unite_neighbours`. Values:
    ``first``, the place of the first document, and ``groups``.
    """
    sketches, at = given.rows["sketches"], given.values["first"]
    table = pa.concat_tables(read_part(run.store, part) for part in given.parts["connected"])
    connected, groups = table["place"].to_numpy(), table["group"].to_numpy()
    dealt = [[_SKETCHED.empty_table()] for _ in range(given.values["groups"])]
    for index, (first, last) in enumerate(pairwise(places_of(sketches))):
        here = slice(*np.searchsorted(connected, [at + first, at + last]))
        if connected[here].size:
            some = sketches.version.part(index, ["signature", "shingles"]).take(pa.array(connected[here] - at - first))
            some = some.add_column(0, "place", pa.array(connected[here]))
            for group in np.unique(groups[here]):
                dealt[group].append(some.filter(pa.array(groups[here] == group)))
    yield from map(pa.concat_tables, dealt)


def settle_group(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Every document of a group that repeats an earlier one, which that is, and their exact Jaccard.

    Parts: ``sketches``, a table of :func:`deal_sketches` of every shard, in the order of their places. Values:
    ``threshold``.
    """
    group = pa.concat_tables(read_part(run.store, part) for part in given.parts["sketches"])
    places, threshold = group["place"].to_numpy(), given.values["threshold"]
    shingles = pc.list_flatten(group["shingles"]).to_numpy()
    offsets = np.append(0, np.cumsum(pc.list_value_length(group["shingles"]).to_numpy()))
    buckets = np.ascontiguousarray(shared_buckets(_keys(group["signature"], threshold)).T)
    with run.progress(len(places), "documents") as meter:
        found, similarities, compared = cluster(buckets, shingles, offsets, threshold, meter)
    repeats = np.flatnonzero(found != np.arange(len(found)))
    run.count("pairs_compared", compared)
    yield pa.table([places[repeats], places[found[repeats]], similarities[repeats]], schema=_REPEATS)


def _keys(signatures: pa.ChunkedArray, threshold: float) -> np.ndarray:
    """The keys of all bands. Shapes: signatures [n] of p numbers; returns [b, n] uint64."""
    if not len(signatures):
        return _NO_KEYS
    flat = signatures.combine_chunks().flatten().to_numpy().reshape(len(signatures), -1)
    return band_keys(flat, band_rows(threshold, flat.shape[1]))


def _dealt(hashes: np.ndarray, groups: int) -> np.ndarray:
    """Which of ``groups`` ranges of its own each hash is in, int64."""
    return ((hashes >> np.uint64(32)) * np.uint64(groups) >> np.uint64(32)).astype(np.int64)
