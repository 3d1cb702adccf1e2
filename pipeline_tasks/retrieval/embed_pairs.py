"""Embeddings of queries and of the positives that the LLM wrote for them, once per (model, part)."""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.vectors import lists
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS
from pipeline_tasks.retrieval.embed_passages import EmbedParams
from pipeline_tasks.retrieval.encoders import open_encoder


@step(
    reads={"pairs": From(PAIRS, "mtp")},
    writes=PAIR_EMBEDDINGS,
    kind="map",
    dataset="query_embeddings/{model}",
    image="gpu",
    pool="gpu",
    memory_gib=4,
)
def embed_pairs(rows: pa.Table, params: EmbedParams, run: Run) -> pa.Table:
    """Encode every query with the model's own instruction, and its positive as a passage."""
    if rows.num_rows == 0:
        return PAIR_EMBEDDINGS.table()
    encoder = open_encoder(params.model)
    with run.progress(2 * rows.num_rows, "texts") as meter:
        intents = rows["intent"].to_pylist()
        queries = encoder.encode_queries(rows["query"].to_pylist(), intents, progress=meter.advance)
        positives = encoder.encode_passages(rows["positive"].to_pylist(), progress=meter.advance)
    run.count("texts_encoded", 2 * rows.num_rows)
    ids = rows.select(["query_id", "passage_id", "doc_id", "intent", "positive_id"])
    return ids.append_column("query_embedding", lists(queries)).append_column("positive_embedding", lists(positives))
