"""Queries that say what an earlier one of their intent says, in nearly its words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.texts.clusters import cluster, shared_buckets
from pipeline_tasks.texts.minhash import band_keys, band_rows, sketch_texts

_PERMUTATIONS = 128


def near_queries(pairs: pa.Table, threshold: float) -> pa.Table:
    """Every query that is near to an earlier one that stays: its ``query_id``, and ``first_id`` of that one.

    Near is a Jaccard similarity of their words of ``threshold`` or more. Candidates come from MinHash and miss one in a
    thousand right at it; similarities are exact. An intent is in memory at a time, with about a kilobyte a query.
    """
    found = []
    for intent in pc.unique(pairs["intent"]).to_pylist():
        rows = pairs.filter(pc.equal(pairs["intent"], intent))
        sketches = sketch_texts(rows["query"].combine_chunks(), 1, _PERMUTATIONS)
        buckets = shared_buckets(band_keys(sketches.signatures, band_rows(threshold, _PERMUTATIONS)))
        first, *_ = cluster(np.ascontiguousarray(buckets.T), sketches.shingles, sketches.offsets, threshold)
        near = np.flatnonzero(first != np.arange(len(first)))
        ids = rows["query_id"].combine_chunks()
        found.append(pa.table([ids.take(pa.array(near)), ids.take(pa.array(first[near]))], ["query_id", "first_id"]))
    none = pa.table([pa.array([], pa.string())] * 2, ["query_id", "first_id"])
    return pa.concat_tables([none, *found])
