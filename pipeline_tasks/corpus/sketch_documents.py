"""Sketches of documents, once each: shingles for exact similarity, MinHash signatures to find whom to compare with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import DOCUMENTS, SKETCHES
from pipeline_tasks.texts.minhash import sketch_texts

BATCH = 256


class SketchDocumentsParams(StepParams):
    """What a sketch is made of."""

    shingle_words: int = Field(3, ge=1, le=64, description="words per shingle")
    n_permutations: int = Field(128, ge=16, le=4096, description="MinHash permutations")


@step(reads={"texts": From(DOCUMENTS, "texts")}, writes=SKETCHES, kind="map")
def sketch_documents(rows: pa.Table, params: SketchDocumentsParams, run: Run) -> Iterator[pa.Table]:
    """Sketch every document by its word shingles; a refresh sketches new documents alone.

    Source: DMRetriever, appendix A (3).
    """
    with run.progress(rows.num_rows, "documents") as meter:
        for batch in rows.select(["doc_id", "text"]).to_batches(max_chunksize=BATCH):
            made = sketch_texts(batch["text"], params.shingle_words, params.n_permutations)
            ends = pa.array(np.arange(batch.num_rows + 1) * params.n_permutations, pa.int32())
            signatures = pa.ListArray.from_arrays(ends, pa.array(made.signatures.ravel()))
            shingles = pa.ListArray.from_arrays(pa.array(made.offsets, pa.int32()), pa.array(made.shingles))
            columns = [batch["doc_id"], signatures, shingles]
            yield pa.Table.from_arrays(columns, schema=SKETCHES.arrow)
            meter.advance(batch.num_rows)
