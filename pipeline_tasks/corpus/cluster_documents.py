"""Clusters of near-duplicate documents as data: MinHash-LSH names candidates, exact Jaccard decides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import DOCUMENT_CLUSTERS, SKETCHES
from pipeline_tasks.texts.clusters import cluster, shared_buckets
from pipeline_tasks.texts.minhash import band_keys, band_rows


class ClusterDocumentsParams(StepParams):
    """When two documents are the same."""

    threshold: float = Field(0.8, gt=0, le=1, description="Jaccard similarity of word shingles from which on")


@step(
    reads={"sketches": SKETCHES}, writes=DOCUMENT_CLUSTERS, kind="reduce", dataset="duplicates/documents", memory_gib=4
)
def cluster_documents(inputs: Inputs, params: ClusterDocumentsParams, run: Run) -> pa.Table:
    """Name the representative of every document: an earlier near-duplicate that stays, or itself.

    Documents come in the order of their parts, so that a refresh never moves an old one. A representative that is
    withdrawn gives its place to the earliest of its duplicates. Shingles are read of those alone that share a band.

    Source: DMRetriever, appendix A (3).
    """
    doc_ids, buckets = _read_buckets(inputs["sketches"], params.threshold)
    candidates = np.any(buckets >= 0, axis=0)
    places = np.flatnonzero(candidates)
    buckets = np.ascontiguousarray(buckets[:, places].T)
    shingles, offsets = _read_shingles(inputs["sketches"], doc_ids, candidates)
    with run.progress(len(places), "documents") as meter:
        originals, similarities, compared = cluster(buckets, shingles, offsets, params.threshold, meter)
    representatives, jaccard = np.arange(len(doc_ids)), np.ones(len(doc_ids))
    representatives[places], jaccard[places] = places[originals], similarities
    run.count("candidates", len(places))
    run.count("pairs_compared", compared)
    run.count("duplicates", int((originals != np.arange(len(places))).sum()))
    columns = [doc_ids, doc_ids.take(pa.array(representatives)), pa.array(jaccard)]
    return pa.Table.from_arrays(columns, schema=DOCUMENT_CLUSTERS.arrow)


def _read_buckets(sketches: Version, threshold: float) -> tuple[pa.ChunkedArray, np.ndarray]:
    """Ids, a chunk each part, and buckets [b, n]; of a signature of 512 bytes only band keys of 200 are kept."""
    doc_ids, keys = [], [np.zeros((1, 0), np.uint64)]
    for part in sketches.parts(["doc_id", "signature"]):
        doc_ids.append(part["doc_id"].combine_chunks())
        if part.num_rows:
            signatures = part["signature"].combine_chunks().flatten().to_numpy().reshape(part.num_rows, -1)
            keys.append(band_keys(signatures, band_rows(threshold, signatures.shape[1])))
    return pa.chunked_array(doc_ids, pa.string()), shared_buckets(np.concatenate(keys[1:] or keys, axis=1))


def _read_shingles(sketches: Version, doc_ids: pa.ChunkedArray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shingles of the ``wanted`` documents, one after another, and where each one's begin and the last one's end."""
    shingles, lengths = [np.zeros(0, np.uint64)], [np.zeros(1, np.int64)]
    last = 0
    for index, chunk in enumerate(doc_ids.chunks):
        first, last = last, last + len(chunk)
        if wanted[first:last].any():
            lists = sketches.part(index, ["shingles"])["shingles"].filter(pa.array(wanted[first:last])).combine_chunks()
            shingles.append(lists.flatten().to_numpy())
            lengths.append(lists.value_lengths().to_numpy())
    return np.concatenate(shingles), np.cumsum(np.concatenate(lengths))
