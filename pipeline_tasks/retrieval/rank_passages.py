"""Rankings: every passage ranked for every query by one reference model; exact search, ties by passage id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.vectors import lists, matrix
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS, RANKINGS
from pipeline_tasks.retrieval.embed_passages import EmbedParams
from pipeline_tasks.retrieval.search import top_k


class RankPassagesParams(EmbedParams):
    """Depth of the rankings."""

    depth: int = Field(200, ge=1, description="passages kept per query (DMRetriever 3.4.3)")


@step(
    reads={
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{model}"),
        "passages": From(PASSAGE_EMBEDDINGS, "embeddings/{model}"),
    },
    writes=RANKINGS,
    kind="reduce",
    dataset="rankings/{model}",
    memory_gib=8,
)
def rank_passages(inputs: Inputs, params: RankPassagesParams, run: Run) -> pa.Table:
    """Rank PDF passages and generated positives alike for every query, keep the best ``depth``.

    Generated positives are domain passages too (DMRetriever, figure 2), so that a query's own positive competes.
    """
    pairs = inputs["queries"].table()
    corpus = corpus_embeddings(inputs["passages"].table(["passage_id", "embedding"]), pairs)
    ids = np.array(corpus["passage_id"].to_pylist(), dtype=object)
    depth = min(params.depth, len(ids))
    indices, scores = top_k(matrix(pairs["query_embedding"]), matrix(corpus["embedding"]), depth)
    run.count("queries_searched", pairs.num_rows)
    ranked = pa.array([ids[row].tolist() for row in indices], pa.list_(pa.string()))
    keys = pairs.select(["query_id", "passage_id", "doc_id", "intent"])
    return keys.append_column("passage_ids", ranked).append_column("scores", lists(scores))


def corpus_embeddings(passages: pa.Table, pairs: pa.Table) -> pa.Table:
    """PDF passages and generated positives as one corpus ordered by passage id, each id once."""
    generated = pairs.select(["positive_id", "positive_embedding"]).rename_columns(["passage_id", "embedding"])
    corpus = pa.concat_tables([passages.select(["passage_id", "embedding"]), generated])
    ids = np.array(corpus["passage_id"].to_pylist())
    _, first = np.unique(ids, return_index=True)
    return corpus.take(pa.array(first))
