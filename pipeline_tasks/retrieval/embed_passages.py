"""Embeddings of passages, once per (model, part): a refresh encodes new parts alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.core.vectors import lists
from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.models.use import REFERENCE_MODELS, identity
from pipeline_tasks.retrieval.encoders import open_encoder


class EmbedParams(StepParams):
    """Which encoder."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder; `foundry models` lists them")

    def identity(self) -> dict[str, Any]:
        """The model's name and what its weights are."""
        return super().identity() | {"weights": identity(self.model)}


@step(
    reads={"passages": PASSAGES},
    writes=PASSAGE_EMBEDDINGS,
    kind="map",
    dataset="embeddings/{model}",
    image="gpu",
    pool="gpu",
    memory_gib=4,
)
def embed_passages(rows: pa.Table, params: EmbedParams, run: Run) -> pa.Table:
    """Encode every passage with one reference model."""
    if rows.num_rows == 0:
        return PASSAGE_EMBEDDINGS.table()
    encoder = open_encoder(params.model)
    with run.progress(rows.num_rows, "passages") as meter:
        vectors = encoder.encode_passages(rows["text"].to_pylist(), progress=meter.advance)
    run.count("texts_encoded", rows.num_rows)
    return rows.select(["passage_id", "doc_id"]).append_column("embedding", lists(vectors))
