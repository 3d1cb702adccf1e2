"""Queries that say what an earlier one of their intent says, in nearly its words: those that an LLM wrote to train on.

Near is a Jaccard similarity of their words of ``near`` or more. Candidates come from MinHash and miss one in a thousand
right at it; similarities are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.synthesis.query_words import queries_of, written
from pipeline_tasks.texts.letters import plain
from pipeline_tasks.texts.minhash import Sketches, sketch_texts
from pipeline_tasks.texts.near_groups import SKETCHED, by_group, connected_of, keys_by_range, keys_of

_PERMUTATIONS = 128
_AT_ONCE = 65_536
"""Queries whose signatures are in memory, half a kilobyte each."""


def key_queries(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The keys of a shard's queries by range; see :meth:`pipeline_tasks.texts.near_groups.Shards.repeats`."""
    queries = queries_of(given, ["query", "intent", "origin", "split"])
    rows = np.flatnonzero(written(queries))
    keys = [keys_of(sketches.signatures, given.values["threshold"]) for _, sketches in _sketched(queries, rows)]
    yield from keys_by_range(np.concatenate(keys, axis=1), rows, given.values["groups"])


def deal_near_queries(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The sketches of a shard's queries by group; a shard that has none of those that are connected is not read."""
    yield from by_group(_connected(given, run), given.values["groups"])


def _connected(given: Partition, run: Run) -> Iterator[tuple[pa.Table, np.ndarray]]:
    (places, groups), at = connected_of(given, run), 0
    if not len(places):
        return
    queries = queries_of(given, ["query_id", "query", "intent"])
    for rows, sketches in _sketched(queries, places - given.values["first"]):
        here = slice(at, at + len(rows))
        signatures = pa.FixedSizeListArray.from_arrays(pa.array(sketches.signatures.ravel()), _PERMUTATIONS)
        columns = {
            "place": places[here],
            "id": queries["query_id"].take(pa.array(rows)),
            "signature": signatures.cast(pa.list_(pa.uint32())),
            "shingles": pa.ListArray.from_arrays(
                pa.array(sketches.offsets.astype(np.int32)), pa.array(sketches.shingles)
            ),
        }
        yield pa.table(columns, SKETCHED), groups[here]
        at += len(rows)


def _sketched(queries: pa.Table, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Sketches]]:
    """Some rows after others, once where there are none, and their sketches; no two intents share a key of a band."""
    for first in range(0, max(1, len(rows)), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        found = queries.take(pa.array(some))
        sketches = sketch_texts(plain(found["query"].combine_chunks()), 1, _PERMUTATIONS)
        intents = found["intent"].combine_chunks().dictionary_encode()
        marks = np.array([_mark(intent) for intent in intents.dictionary.to_pylist()], np.uint32)
        signatures = sketches.signatures ^ marks[intents.indices.to_numpy()][:, None]
        yield some, Sketches(sketches.shingles, sketches.offsets, signatures)


def _mark(intent: str) -> int:
    return int.from_bytes(sha256(intent.encode()).digest()[:4], "big")
