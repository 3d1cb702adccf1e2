"""Clusters of near-duplicate documents as data: MinHash-LSH names candidates, exact Jaccard decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import ceil

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.corpus.document_groups import (
    deal_sketches,
    find_neighbours,
    key_bands,
    places_of,
    settle_group,
    unite_neighbours,
)
from pipeline_tasks.datasets import DOCUMENT_CLUSTERS, SKETCHES

PART_DOCUMENTS = 65_536
"""Documents of a part of the version."""


class ClusterDocumentsParams(StepParams):
    """When two documents are the same, and how much a process holds."""

    threshold: float = Field(0.8, gt=0, le=1, description="Jaccard similarity of word shingles from which on")
    block_mib: float = tuning(128, gt=0, description="MiB of sketches that a process holds at a time")


@step(
    reads={"sketches": SKETCHES},
    writes=DOCUMENT_CLUSTERS,
    kind="partitioned",
    dataset="duplicates/documents",
    memory_gib=4,
)
def cluster_documents(inputs: Inputs, params: ClusterDocumentsParams, run: PartitionedRun) -> Iterator[pa.Table]:
    """Name the representative of every document: an earlier near-duplicate that stays, or itself.

    Documents come in the order of their parts, so that a refresh never moves an old one. A representative that is
    withdrawn gives its place to the earliest of its duplicates. Shingles are read of those alone that share a band. One
    process holds ``block_mib`` of sketches at a time, more only of documents that are all connected.

    Source: DMRetriever, appendix A (3).
    """
    parts = [part["doc_id"].combine_chunks() for part in inputs["sketches"].parts(["doc_id"])]
    doc_ids = pa.chunked_array(parts, pa.string())
    representatives, jaccard = np.arange(len(doc_ids)), np.ones(len(doc_ids))
    for found in _repeats(inputs["sketches"], params, run):
        places = found["place"].to_numpy()
        representatives[places], jaccard[places] = found["original"].to_numpy(), found["jaccard"].to_numpy()
    run.count("duplicates", int((representatives != np.arange(len(doc_ids))).sum()))
    for first in range(0, max(1, len(doc_ids)), PART_DOCUMENTS):
        here = slice(first, first + PART_DOCUMENTS)
        columns = [doc_ids[here], doc_ids.take(pa.array(representatives[here])), pa.array(jaccard[here])]
        yield pa.Table.from_arrays(columns, schema=DOCUMENT_CLUSTERS.arrow)


def _repeats(sketches: Version, params: ClusterDocumentsParams, run: PartitionedRun) -> Iterator[pa.Table]:
    """Documents that repeat another: keys meet by range, neighbours are united, groups of them are settled."""
    size = sum(part.size_bytes for part in sketches.manifest.parts)
    groups = _power_of_two(ceil(size / (params.block_mib * 2**20)))
    shards = pieces({"sketches": sketches}, _power_of_two(sketches.manifest.rows // groups))
    places = list(accumulate((places_of(shard["sketches"])[-1] for shard in shards), initial=0))
    of_keys, of_all = {"threshold": params.threshold, "groups": groups}, {"places": places}
    keyed = run.spread(key_bands, [Partition(shard, values=of_keys) for shard in shards])
    ranges = [Partition(parts={"keys": tables}, values=of_all) for tables in zip(*keyed, strict=True)]
    neighbours = [table for (table,) in run.spread(find_neighbours, ranges, lasting=False)]
    everyone = Partition(parts={"neighbours": neighbours}, values=of_all | {"groups": groups})
    (connected,) = run.spread(unite_neighbours, [everyone], lasting=False)
    run.count("candidates", sum(table.rows for table in connected))
    given = zip(shards, connected, places, strict=False)
    of_shards = [Partition(s, {"connected": [c]}, {"groups": groups, "first": first}) for s, c, first in given]
    dealt = run.spread(deal_sketches, of_shards, lasting=False)
    of_group = {"threshold": params.threshold}
    settled = [Partition(parts={"sketches": tables}, values=of_group) for tables in zip(*dealt, strict=True)]
    for (found,) in run.spread(settle_group, settled, lasting=False):
        yield read_part(run.store, found)


def _power_of_two(n: int) -> int:
    """The least one that is not below ``n``: as a corpus grows it seldom changes."""
    return 1 << max(0, n - 1).bit_length()
