"""Clusters of near-duplicate documents as data: MinHash-LSH names candidates, exact Jaccard decides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.partitions import PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.corpus.document_groups import deal_sketches, key_bands
from pipeline_tasks.datasets import DOCUMENT_CLUSTERS, SKETCHES
from pipeline_tasks.texts.near_groups import Shards, power_of_two

PART_DOCUMENTS = 65_536
"""Documents of a part of the version."""


class ClusterDocumentsParams(StepParams):
    """When two documents are the same, and how much a process holds."""

    threshold: float = Field(
        0.8, gt=0, le=1, description="Jaccard similarity of word shingles from which documents are near-duplicates"
    )
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
    repeats = _repeats(inputs["sketches"], params, run).sort_by("place")
    run.count("duplicates", repeats.num_rows)
    places = repeats["place"].to_numpy()
    for first in range(0, max(1, len(doc_ids)), PART_DOCUMENTS):
        ids = one_array(doc_ids[first : first + PART_DOCUMENTS])
        here = slice(*np.searchsorted(places, [first, first + len(ids)]))
        repeated, jaccard = np.zeros(len(ids), bool), np.ones(len(ids))
        repeated[places[here] - first], jaccard[places[here] - first] = True, repeats["jaccard"].to_numpy()[here]
        originals = pc.replace_with_mask(ids, pa.array(repeated), one_array(repeats["original"][here]))
        yield pa.Table.from_arrays([ids, originals, pa.array(jaccard)], schema=DOCUMENT_CLUSTERS.arrow)


def _repeats(sketches: Version, params: ClusterDocumentsParams, run: PartitionedRun) -> pa.Table:
    """Documents that repeat another."""
    groups = power_of_two(sum(part.size_bytes for part in sketches.manifest.parts) / (params.block_mib * 2**20))
    rows = pieces({"sketches": sketches}, power_of_two(sketches.manifest.rows // groups))
    tables = Shards(rows, groups, params.threshold).repeats(key_bands, deal_sketches, run)
    return pa.concat_tables(read_part(run.store, found) for of_shard in tables for found in of_shard)
