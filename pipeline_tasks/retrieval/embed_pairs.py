"""Embeddings of queries and of the positives that the LLM wrote for them, once per (model, part)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.embed_passages import EncodeParams, noted, texts_of
from pipeline_tasks.retrieval.encoders import instructions_of


class EmbedPairsParams(EncodeParams):
    """Which encoder, how exact, and what an instructed model is told to look for."""

    def identity(self) -> dict[str, Any]:
        """The parameters and the instructions, where the model is given any."""
        instructions = instructions_of(get(self.model))
        return super().identity() | ({"instructions": instructions} if instructions else {})


@step(
    reads={"pairs": From(PAIRS, "mtp")},
    writes=PAIR_EMBEDDINGS,
    kind="map",
    dataset="query_embeddings/{model}",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def embed_pairs(rows: pa.Table, params: EmbedPairsParams, run: Run) -> pa.Table:
    """Encode every query as the model wants it asked, with its own instruction if any, and its positive as a passage.

    Raises:
        InputError: a text is blank, or the model gives a vector that is none.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    if rows.num_rows == 0:
        return PAIR_EMBEDDINGS.table()
    queries, positives = (texts_of(rows, "query_id", column) for column in ("query", "positive"))
    told = [rows[name].to_pylist() for name in ("intent", "instruction") if name in rows.column_names]
    encoder = params.open(positives, run)
    with run.progress(2 * rows.num_rows, "texts") as meter, noted(run, encoder, 2 * rows.num_rows):
        of_queries = encoder.encode_queries(queries, *told, progress=meter.advance)
        of_positives = encoder.encode_passages(positives, progress=meter.advance)
    ids = rows.select(["query_id", "passage_id", "doc_id", "intent", "positive_id", "origin"])
    vectors = {"query_embedding": of_queries, "positive_embedding": of_positives}
    for name, values in vectors.items():
        ids = ids.append_column(name, params.kept(values))
    return ids
