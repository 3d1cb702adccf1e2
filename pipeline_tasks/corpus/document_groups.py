"""Sketches of documents as the rounds of :mod:`pipeline_tasks.texts.near_groups` take them: none holds the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.texts.near_groups import by_group, connected_of, keys_by_range, keys_of, signatures_of

_NO_KEYS = np.zeros((1, 0), np.uint64)


def places_of(sketches: Rows) -> list[int]:
    """Where each part's live rows begin among those of all, and after the last one how many there are."""
    version = sketches.version
    removed = (len(version.removed.rows(index)) for index in range(len(version.manifest.parts)))
    live = (part.rows - gone for part, gone in zip(version.manifest.parts, removed, strict=True))
    return list(accumulate(live, initial=0))


def key_bands(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The keys of some documents by range; see :meth:`pipeline_tasks.texts.near_groups.Shards.repeats`."""
    parts = [part for part in given.rows["sketches"].tables(["signature"]) if part.num_rows]
    keys = [keys_of(signatures_of(part["signature"]), given.values["threshold"]) for part in parts]
    found = np.concatenate(keys or [_NO_KEYS], axis=1)
    yield from keys_by_range(found, np.arange(found.shape[1]), given.values["groups"])


def deal_sketches(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The sketches of some documents by group; parts that have none of those that are connected are not read."""
    yield from by_group(_connected(given, run), given.values["groups"])


def _connected(given: Partition, run: Run) -> Iterator[tuple[pa.Table, np.ndarray]]:
    sketches, at = given.rows["sketches"], given.values["first"]
    connected, groups = connected_of(given, run)
    for index, (first, last) in enumerate(pairwise(places_of(sketches))):
        here = slice(*np.searchsorted(connected, [at + first, at + last]))
        if connected[here].size:
            some = sketches.version.part(index, ["doc_id", "signature", "shingles"])
            some = some.take(pa.array(connected[here] - at - first)).rename_columns(["id", "signature", "shingles"])
            yield some.add_column(0, "place", pa.array(connected[here])), groups[here]
