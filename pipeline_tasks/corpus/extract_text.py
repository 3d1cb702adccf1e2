"""Running text of PDFs, each document in a worker process with a time limit: none can take the batch down."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.corpus.pdf_text import PdfText, read_pdf
from pipeline_tasks.corpus.workers import run_limited
from pipeline_tasks.datasets import DOCUMENTS, DOWNLOADS


class ExtractTextParams(StepParams):
    """Limits of extraction."""

    time_limit_s: float = Field(60.0, gt=0, description="seconds a document may take")
    min_words: int = Field(50, ge=1, description="fewer words than this are no document")


@step(reads={"downloads": DOWNLOADS}, writes=DOCUMENTS, kind="map", dataset="texts", memory_gib=4)
def extract_text(rows: pa.Table, params: ExtractTextParams, run: Run) -> Iterator[pa.Table]:
    """Turn every PDF into running text with page offsets, or a reject with its reason.

    Reasons: ``encrypted``, ``damaged``, ``no_text`` (scanned images), ``too_short``, ``timeout``, ``crashed``.
    """
    contents = rows["content"].to_pylist()
    records = rows.drop_columns(["content", "size_bytes"]).to_pylist()
    results = run_limited(read_pdf, contents, processes=settings().workers, time_limit_s=params.time_limit_s)
    with run.progress(len(records), "documents") as meter:
        for row, result in zip(records, results, strict=True):
            meter.advance()
            if not isinstance(result, PdfText):
                run.reject(row["doc_id"], result.reason, f"{row['url']} {result.detail}".strip())
            elif result.n_words < params.min_words:
                reason = "too_short" if result.n_words else "no_text"
                run.reject(row["doc_id"], reason, f"{row['url']} {result.n_words} words on {result.n_pages} pages")
            else:
                run.count("pages", result.n_pages)
                yield DOCUMENTS.table([row | result.columns()])
