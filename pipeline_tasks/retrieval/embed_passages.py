"""Embeddings of passages, once per (model, part): a refresh encodes new parts alone.

A dataset that keeps the parts of another (``passages`` keeps those of ``chunks``) finds their embeddings in the memo.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import PaidParams
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.settings import Secret
from pipeline_tasks.core.step import step, tuning
from pipeline_tasks.core.vectors import lists
from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.encoders.onnx_export import QUANTISATION
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.embed_params import EmbedParams
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.open_encoder import Precision, is_exact_only
from pipeline_tasks.retrieval.served_encoder import open_or_ask


class EncodeParams(EmbedParams, PaidParams):
    """Which encoder, and how exact."""

    precision: Precision = Field("float32", description="numeric precision: bfloat16, float16 on GPUs; int8 on CPUs")
    storage: Literal["float16", "float32"] = Field(
        "float32", description="precision of stored vectors; float16 halves the disk"
    )
    concurrency: int = tuning(4, ge=1, description="concurrent requests to an embeddings endpoint")

    def identity(self) -> dict[str, Any]:
        """The parameters, and how the vectors are computed."""
        return super().identity() | self.arithmetic_of(self.model)

    def arithmetic_of(self, *models: str) -> dict[str, Any]:
        """The precision, float32 where it has no say in any of the models; what makes int8 graphs and runs them."""
        if all(map(is_exact_only, models)):
            return {"precision": "float32"}
        if self.precision != "int8":
            return {"precision": self.precision}
        return {"precision": "int8", "libraries": versions_of("onnxruntime"), "quantisation": QUANTISATION}

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """A model that runs here wants no key."""
        return declared if is_served(get(self.model)) else ()

    def open(self, texts: list[str], run: Run) -> Encoder:
        """The encoder, once its int8 vectors of ``texts`` are known to be good enough."""
        encoder = open_or_ask(self.model, self.precision, run.store, self.terms(run))
        if self.precision == "int8" and not is_exact_only(self.model):
            from pipeline_tasks.retrieval.onnx_int8 import check

            check(encoder, open_or_ask(self.model, "float32", run.store), texts)
        return encoder

    def stored_vectors(self, vectors: np.ndarray) -> pa.ListArray:
        """Vectors as they are stored: rounded to half precision, which Parquet then keeps in half the bytes."""
        return lists(vectors.astype(np.float16) if self.storage == "float16" else vectors)


def texts_of(rows: pa.Table, key: str, column: str) -> list[str]:
    """The texts of a column.

    Raises:
        InputError: one is blank, naming its row.
    """
    texts = rows[column].to_pylist()
    for row, text in enumerate(texts):
        if not (text or "").strip():
            raise InputError(f"{key} {rows[key][row]}: its {column} is blank; refuse such rows before they are encoded")
    return texts


@step(
    reads={"passages": PASSAGES},
    writes=PASSAGE_EMBEDDINGS,
    kind="map",
    dataset="embeddings/{model}",
    image="gpu",
    pool="gpu",
    memory_gib=4,
    secrets=("embeddings",),
)
def embed_passages(rows: pa.Table, params: EncodeParams, run: Run) -> pa.Table:
    """Encode every passage with one reference model.

    Raises:
        InputError: a passage is blank, or the model gives a vector that is none.
        TransientError: an endpoint stayed busy; what it gave so far is kept.
    """
    if rows.num_rows == 0:
        return PASSAGE_EMBEDDINGS.table()
    texts = texts_of(rows, "passage_id", "text")
    encoder = params.open(texts, run)
    with run.progress(rows.num_rows, "passages") as meter, counting_costs(run, encoder, rows.num_rows):
        vectors = encoder.encode_passages(texts, progress=meter.advance)
    return rows.select(["passage_id", "doc_id"]).append_column("embedding", params.stored_vectors(vectors))


@contextmanager
def counting_costs(run: Run, encoder: Encoder, n_texts: int) -> Iterator[None]:
    """Put into the counters what the block encodes, and what an endpoint takes for it, also where it fails then."""
    try:
        yield
        run.count("texts_encoded", n_texts)
    finally:
        run.counters.update(encoder.costs)
        run.responses |= encoder.responses
        encoder.costs.clear()
        encoder.responses.clear()
