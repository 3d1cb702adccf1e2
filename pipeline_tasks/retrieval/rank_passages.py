"""Rankings: the passages of its corpus ranked for every query by one reference model; exact, ties by passage id."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.earlier import earlier
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.vectors import checked, lists, matrix
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS, RANKINGS
from pipeline_tasks.retrieval.corpus import Corpus, by_corpus, open_corpora
from pipeline_tasks.retrieval.earlier_rankings import EarlierRankings, earlier_rankings
from pipeline_tasks.retrieval.embed_params import EmbedParams
from pipeline_tasks.retrieval.search import search


class RankPassagesParams(EmbedParams):
    """Depth of the rankings, and how they are searched."""

    depth: int = Field(200, ge=1, description="passages kept per query (DMRetriever 3.4.3)")
    index: Literal["exact", "faiss", "ivf", "hnsw"] = Field(
        "exact", description="exact; faiss: as exact, by FAISS, on a GPU where there is one; ivf, hnsw: approximate"
    )
    recall: float = Field(0.95, gt=0, le=1, description="least recall that ivf and hnsw are tuned to on a sample")

    def identity(self) -> dict[str, Any]:
        """All but what gives the same rankings: FAISS's exact search, and the recall where search is exact."""
        found = super().identity()
        return found | {"index": "exact", "recall": 1.0} if self.index in ("exact", "faiss") else found


@step(
    reads={
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{model}"),
        "passages": From(PASSAGE_EMBEDDINGS, "embeddings/{model}"),
        "positives": From(PAIR_EMBEDDINGS, "query_embeddings/{model}"),
    },
    writes=RANKINGS,
    kind="map",
    dataset="rankings/{model}",
    version="3",
    memory_gib=6,
)
def rank_passages(rows: pa.Table, params: RankPassagesParams, run: Run) -> pa.Table:
    """Rank the passages of a query's own corpus for it, generated positives among them, and keep the best ``depth``.

    Generated positives are domain passages too (DMRetriever, figure 2), so that a query's own positive competes; its
    cosine is kept wherever it ranks. Pairs without a passage of ours are ranked among the positives of their origin,
    and no other query sees these (:mod:`~pipeline_tasks.retrieval.corpus`). A query that the latest version ranked is
    searched among new passages alone, unless passages that are gone leave its old ranking too short (exact search; the
    rows are those of a full one).

    Raises:
        InputError: a vector is zero, not finite, or of another width than the rest.
    """
    if rows.num_rows == 0:
        return RANKINGS.table()
    now = tuple(str(run.inputs[name].manifest.ref) for name in ("passages", "positives"))
    corpora = open_corpora(run.store, *now)
    before = earlier(run.store, rank_passages, params) if params.identity()["index"] == "exact" else None
    ranked, places = [], []
    for name, which in by_corpus(rows):
        some = rows.take(pa.array(which))
        ranked_before = None
        if before and run.part:
            asked = some["query_id"].combine_chunks()
            ranked_before = earlier_rankings(before, run.part, asked, (name, corpora[name]), now)
        ranked.append(_ranked(some, corpora[name], ranked_before, params, run))
        places.append(which)
    return pa.concat_tables(ranked).take(pa.array(np.argsort(np.concatenate(places))))


def _ranked(
    rows: pa.Table, corpus: Corpus, before: EarlierRankings | None, params: RankPassagesParams, run: Run
) -> pa.Table:
    """Rows of rankings for queries of one corpus."""
    queries, own = (_vectors(rows, name, corpus, run) for name in ("query_embedding", "positive_embedding"))
    depth = min(params.depth, len(corpus.ids))
    if before:
        keys, scores = _merged(before, queries, corpus, depth, params, run)
    else:
        keys, scores = _search(queries, corpus, depth, params, run)
    found = corpus.ids.take(pa.array(keys.ravel()))
    ends = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * depth)
    ranked = rows.select(["query_id", "passage_id", "doc_id", "intent"])
    ranked = ranked.append_column("passage_ids", pa.ListArray.from_arrays(ends, found))
    return ranked.append_column("scores", lists(scores)).append_column("positive_score", _cosines(queries, own))


def _merged(
    before: EarlierRankings, queries: np.ndarray, corpus: Corpus, depth: int, params: RankPassagesParams, run: Run
) -> tuple[np.ndarray, np.ndarray]:
    """Old rankings and new passages; in full what was not ranked before, or is no longer sure."""
    n_new = sum(len(keys) for _, keys in before.new)
    known = np.ascontiguousarray(queries[before.rows])
    found = search(known, before.new, min(depth, n_new))
    run.count("queries_merged", len(known))
    run.count("cosines", len(known) * n_new)
    some_keys, some_scores, sure = before.merged(found, depth)
    keys, scores = np.empty((len(queries), depth), np.int32), np.empty((len(queries), depth), np.float32)
    keys[before.rows], scores[before.rows] = some_keys, some_scores
    rest = np.setdiff1d(np.arange(len(queries)), before.rows[sure])
    if len(rest):
        keys[rest], scores[rest] = _search(np.ascontiguousarray(queries[rest]), corpus, depth, params, run)
    return keys, scores


def _search(
    queries: np.ndarray, corpus: Corpus, depth: int, params: RankPassagesParams, run: Run
) -> tuple[np.ndarray, np.ndarray]:
    run.count("queries_searched", len(queries))
    run.count("cosines", len(queries) * len(corpus.ids))
    if params.index == "exact":
        with run.progress(len(queries) * sum(len(keys) for _, keys in corpus.shards), "cosines") as meter:
            return search(queries, corpus.shards, depth, progress=meter.advance)
    from pipeline_tasks.retrieval.faiss_search import faiss_search

    found = faiss_search(queries, corpus.shards, depth, params.index, params.recall)
    run.count("sampled_queries", found.n_sampled)
    run.count("recall_of_sample", found.recall * found.n_sampled)
    return found.keys, found.scores


def _vectors(rows: pa.Table, column: str, corpus: Corpus, run: Run) -> np.ndarray:
    source = f"{run.inputs['queries'].manifest.ref} {column}"
    vectors = checked(matrix(rows[column]), rows["query_id"], source)
    if vectors.shape[1] != corpus.width:
        raise InputError(
            f"{source}: vectors of {vectors.shape[1]} numbers over passages of {corpus.width}: encode with one model"
        )
    return vectors


def _cosines(queries: np.ndarray, own: np.ndarray) -> pa.Array:
    from pipeline_tasks.retrieval.scan_kernels import dots

    return pa.array(dots(queries, own, np.arange(len(own), dtype=np.int64)[:, None])[:, 0])
