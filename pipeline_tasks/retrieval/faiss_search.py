"""Search by FAISS: exact with the same rows as our own search, or approximate and tuned to a recall that is measured.

FAISS only proposes: see :mod:`pipeline_tasks.retrieval.proposals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeline_tasks.core.settings import settings
from pipeline_tasks.retrieval.proposals import counted, exact, scored
from pipeline_tasks.retrieval.search import NO_KEY, Shard, search

Kind = Literal["faiss", "ivf", "hnsw"]
_SAMPLE = 200
_HNSW_LINKS = 32


@dataclass(frozen=True)
class ApproximateHits:
    """What was found, and how good it is.

    Attributes:
        keys: [q, k], int32, as of :func:`pipeline_tasks.retrieval.search.search`.
        scores: [q, k], float32.
        recall: share of the true best k that was found, mean over the sample; 1 for exact search.
        n_sampled: queries on which that was measured.
        effort: lists probed (ivf) or candidates kept (hnsw) to get there; 0 for exact search.
    """

    keys: np.ndarray
    scores: np.ndarray
    recall: float
    n_sampled: int
    effort: int


def faiss_search(
    queries: np.ndarray, shards: list[Shard], k: int, kind: Kind, recall: float = 0.95, index: Any = None
) -> ApproximateHits:
    """The ``k`` best keys per query; for ``ivf`` and ``hnsw`` with at least that recall on a sample of the queries.

    The effort is doubled until the sample's recall is reached, or everything is probed; a query for which fewer than
    ``k`` were found is searched exactly. The whole corpus is copied into the index, unless ``index`` is what
    :func:`build_index` made of it before.

    Raises:
        InputError: there are fewer than ``k`` passages.
    """
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    queries = np.ascontiguousarray(queries, np.float32)
    vectors, keys = counted(shards, k)
    index = build_index(vectors, kind) if index is None else index
    if kind == "faiss":
        return ApproximateHits(*exact(index, queries, vectors, keys, k), 1.0, len(queries), 0)
    rows = np.unique(np.linspace(0, len(queries) - 1, _SAMPLE).astype(int)) if len(queries) else np.empty(0, int)
    truth = search(queries[rows], [(vectors, keys)], k)[0]
    effort, most = (1, index.nlist) if kind == "ivf" else (max(k, 16), len(keys))
    while True:
        _set_effort(index, kind, effort)
        tried = scored(index.search(queries[rows], k)[1], queries[rows], vectors, keys)[0]
        measured = _recall(tried, truth)
        if measured >= recall or effort >= most:
            break
        effort = min(2 * effort, most)
    found = scored(index.search(queries, k)[1], queries, vectors, keys)
    short = np.flatnonzero(found[0][:, -1] == NO_KEY)
    if len(short):
        found[0][short], found[1][short] = search(queries[short], [(vectors, keys)], k)
    return ApproximateHits(*found, measured, len(rows), effort)


def build_index(vectors: np.ndarray, kind: Kind) -> Any:
    """The index of a corpus, for any number of searches."""
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    n, width = vectors.shape
    if kind == "hnsw":
        index: Any = faiss.IndexHNSWFlat(width, _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    elif kind == "ivf":
        n_lists = int(np.clip(4 * np.sqrt(n), 1, max(1, n // 39)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, n_lists, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
    else:
        index = faiss.IndexFlatIP(width)
    index.add(vectors)
    return index


def _set_effort(index: Any, kind: Kind, effort: int) -> None:
    if kind == "ivf":
        index.nprobe = effort
    else:
        index.hnsw.efSearch = effort


def _recall(found: np.ndarray, truth: np.ndarray) -> float:
    if not len(truth):
        return 1.0
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, truth, strict=True)]))
