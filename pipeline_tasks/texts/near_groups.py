"""Near-duplicates of more texts than a process holds: compared a group at a time, in rounds of partitions.

Two texts are *neighbours* where they share a key of a band. Whom a text repeats depends on those alone that it is
connected with, over neighbours of neighbours. So keys meet by their hash, the neighbours that they name are united, and
sketches of connected texts move to one group, which is clustered by itself. What is found does not depend on the number
of groups. A text is known by its place in the order of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows, Work, dealt, ranges_of
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.texts.clusters import cluster, shared_buckets, united
from pipeline_tasks.texts.minhash import band_keys, band_rows

_MIX = np.uint64(0x9E3779B97F4A7C15)
_NUMBERS = {"signature": pa.list_(pa.uint32()), "shingles": pa.list_(pa.uint64())}
SKETCHED = pa.schema({"place": pa.int64(), "id": pa.string(), **_NUMBERS})
_REPEATS = pa.schema({"place": pa.int64(), "original": pa.string(), "jaccard": pa.float64()})


@dataclass(frozen=True)
class Shards:
    """Rows with texts, and what is alike among these.

    Attributes:
        rows: of each shard, one shard after the other.
        groups: how many groups are made of them.
        threshold: Jaccard similarity from which on texts are alike.
    """

    rows: Sequence[dict[str, Rows]]
    groups: int
    threshold: float

    @cached_property
    def places(self) -> list[int]:
        """Where the rows of each shard begin among those of all, and after the last one how many there are."""
        return list(accumulate((sum(map(len, shard.values())) for shard in self.rows), initial=0))

    def repeats(
        self, keys: Work, sketches: Work, run: PartitionedRun, left_out: Sequence[Part] = ()
    ) -> list[tuple[Part, ...]]:
        """Of each shard the tables that say which of its texts repeat an earlier one: place, its id, exact Jaccard.

        ``keys`` gives :func:`keys_by_range` of a shard. Values: ``threshold`` and ``groups``. ``sketches`` gives, for
        each group, rows of :data:`SKETCHED`, those of a shard that are ``connected``, in the order of their places.
        Parts: ``connected``, one table of places and groups. Values: ``first``, the place of the first row, and
        ``groups``. Texts at the places of ``left_out`` count as not there.
        """
        of_keys, of_all = {"threshold": self.threshold, "groups": self.groups}, {"places": self.places}
        keyed = run.spread(keys, [Partition(rows, values=of_keys) for rows in self.rows])
        ranges = [Partition(parts={"keys": tables}, values=of_all) for tables in zip(*keyed, strict=True)]
        neighbours = [table for (table,) in run.spread(find_neighbours, ranges, lasting=False)]
        parts = {"neighbours": neighbours, "left_out": left_out}
        everyone = Partition(parts=parts, values=of_all | {"groups": self.groups})
        (connected,) = run.spread(unite_neighbours, [everyone], lasting=False)
        run.count("candidates", sum(table.rows for table in connected))
        of_shards = [
            Partition(rows, {"connected": [table]}, {"groups": self.groups, "first": first})
            for rows, table, first in zip(self.rows, connected, self.places, strict=False)
        ]
        sketched = run.spread(sketches, of_shards, lasting=False)
        of_group = of_all | {"threshold": self.threshold}
        groups = [Partition(parts={"sketches": tables}, values=of_group) for tables in zip(*sketched, strict=True)]
        return list(zip(*run.spread(settle_group, groups, lasting=False), strict=True))


def power_of_two(n: float) -> int:
    """The least one that is not below ``n``: as a corpus grows it seldom changes."""
    return 1 << max(0, ceil(n) - 1).bit_length()


def keys_of(signatures: np.ndarray, threshold: float) -> np.ndarray:
    """The keys of all bands. Shapes: signatures [n, p] uint32; returns [b, n] uint64."""
    return band_keys(signatures, band_rows(threshold, signatures.shape[1]))


def keys_by_range(keys: np.ndarray, rows: np.ndarray, groups: int) -> Iterator[pa.Table]:
    """The key of every band of some rows of a shard, a table for each of ``groups`` ranges of keys.

    Shapes: keys [b, n] uint64, rows [n] int64.
    """
    bands = np.arange(len(keys), dtype=np.uint64)[:, None]
    mixed = ((keys + bands * _MIX) * _MIX).ravel()
    return dealt(pa.table({"key": mixed, "row": np.tile(rows, len(keys))}), ranges_of(mixed, groups), groups)


def connected_of(given: Partition, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The places of those rows of a shard that are connected with others, ascending, and the group of each."""
    table = pa.concat_tables(read_part(run.store, part) for part in given.parts["connected"])
    return table["place"].to_numpy(), table["group"].to_numpy()


def by_group(sketches: Iterable[tuple[pa.Table, np.ndarray]], groups: int) -> Iterator[pa.Table]:
    """Rows of :data:`SKETCHED` that come with their groups, a table for each group in the order in which they came."""
    found = [[SKETCHED.empty_table()] for _ in range(groups)]
    for some, of_some in sketches:
        for group in np.unique(of_some):
            found[group].append(some.filter(pa.array(of_some == group)))
    yield from map(pa.concat_tables, found)


def places_in(tables: Sequence[Part], run: Run) -> np.ndarray:
    """The places that some tables name; none where there are no tables."""
    places = (read_part(run.store, table, ["place"])["place"].to_numpy() for table in tables)
    return np.concatenate([np.empty(0, np.int64), *places])


def find_neighbours(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Each text that has the key of an earlier one, beside the first that has it.

    Parts: ``keys`` of one range, a table of every shard. Values: ``places``.
    """
    tables = [read_part(run.store, part) for part in given.parts["keys"]]
    firsts = zip(tables, given.values["places"], strict=False)
    keys = np.concatenate([table["key"].to_numpy() for table in tables])
    places = np.concatenate([table["row"].to_numpy() + first for table, first in firsts])
    place, first = repeated(keys, places)
    yield pa.table({"place": place, "neighbour": first})


def repeated(keys: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each key that was there before, and the place where it was first.

    Shapes: keys [n] and places [n], of equal keys the first one first; results [m].
    """
    order = np.argsort(keys, kind="stable")
    keys, places = keys[order], places[order]
    begins = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    first = places[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return places[~begins], first[~begins]


def unite_neighbours(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Which texts have neighbours, and in which group those are that they are connected with; a table a shard.

    Parts: ``neighbours`` of every range of keys, and ``left_out``, places of texts that are not compared. Values:
    ``places`` and ``groups``.
    """
    places = given.values["places"]
    tables = (read_part(run.store, part) for part in given.parts["neighbours"])
    pairs = ((table["place"].to_numpy(), table["neighbour"].to_numpy()) for table in tables)
    roots = united(places[-1], pairs)
    connected = np.flatnonzero(np.bincount(roots, minlength=places[-1])[roots] > 1)
    connected = np.setdiff1d(connected, places_in(given.parts["left_out"], run))
    groups = ranges_of(roots[connected].astype(np.uint64) * _MIX, given.values["groups"])
    for first, last in pairwise(places):
        here = slice(*np.searchsorted(connected, [first, last]))
        yield pa.table({"place": connected[here], "group": groups[here]})


def settle_group(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Every text of a group that repeats an earlier one, the id of that, and their exact Jaccard; a table a shard.

    Parts: ``sketches``, rows of :data:`SKETCHED` of every shard, in the order of their places. Values: ``threshold``
    and ``places``.
    """
    group = pa.concat_tables(read_part(run.store, part) for part in given.parts["sketches"])
    places = group["place"].to_numpy()
    shingles = pc.list_flatten(group["shingles"]).to_numpy()
    offsets = np.append(0, np.cumsum(pc.list_value_length(group["shingles"]).to_numpy()))
    threshold, signatures = given.values["threshold"], signatures_of(group["signature"])
    buckets = np.full((0, 1), -1, np.int32)
    if len(signatures):
        buckets = np.ascontiguousarray(shared_buckets(keys_of(signatures, threshold)).T)
    with run.progress(len(places), "texts") as meter:
        found, similarities, compared = cluster(buckets, shingles, offsets, threshold, meter)
    run.count("pairs_compared", compared)
    later = np.flatnonzero(found != np.arange(len(found)))
    originals = group["id"].take(pa.array(found[later]))
    repeats = pa.Table.from_arrays([pa.array(places[later]), originals, pa.array(similarities[later])], schema=_REPEATS)
    bounds = np.searchsorted(places[later], given.values["places"])
    for first, last in pairwise(bounds.tolist()):
        yield repeats.slice(first, last - first)


def signatures_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column of signatures as an array. Shapes: [n] of p numbers; returns [n, p] uint32, [0, 0] of none."""
    if not len(column):
        return np.zeros((0, 0), np.uint32)
    return column.combine_chunks().flatten().to_numpy().reshape(len(column), -1)
