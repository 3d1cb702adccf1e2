"""Running text of PDFs, each document in a worker process with limits: none can take the batch down."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.memory import MIB, memory_limit
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.corpus.pdf.engines import engine_version
from pipeline_tasks.corpus.pdf.language import identifier_version
from pipeline_tasks.corpus.pdf.model import PdfText, Unreadable
from pipeline_tasks.corpus.pdf.ocr import tesseract_identity
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited
from pipeline_tasks.datasets import DOCUMENTS, DOWNLOADS


class ExtractTextParams(StepParams):
    """What reads the PDFs, what counts as a document, and limits of extraction."""

    engine: Literal["pymupdf", "pypdfium2"] = Field("pymupdf", description="library that opens PDFs")
    languages: tuple[str, ...] = Field(("en",), description="ISO 639-1 codes accepted; [] for all")
    min_words: int = Field(50, ge=1, description="shortest document, in words; shorter ones are rejected")
    ocr: bool = Field(
        False, description="OCR of scanned pages with Tesseract, which the images of docker and kubernetes do not have"
    )
    ocr_language: str = Field("eng", description="language of OCR by Tesseract's name, several joined by +")
    cpu_limit_s: float = Field(60.0, gt=0, description="seconds of processor time a document may take")
    memory_limit_mib: int = Field(1024, ge=128, description="MiB a worker may allocate for a document")
    patience: float = tuning(
        60.0,
        ge=1,
        description="wall-clock limit of a document, in multiples of cpu_limit_s; the step then asks to be run again",
    )

    def identity(self) -> dict[str, Any]:
        """Parameters, and the versions of the libraries that decide what the text is."""
        libraries: dict[str, Any] = {"engine": engine_version(self.engine), "language": identifier_version()}
        if self.ocr:
            libraries["ocr"] = tesseract_identity(self.ocr_language)
        return super().identity() | {"libraries": libraries}


@step(reads={"downloads": DOWNLOADS}, writes=DOCUMENTS, kind="map", dataset="texts", version="6", memory_gib=4)
def extract_text(rows: pa.Table, params: ExtractTextParams, run: Run) -> Iterator[pa.Table]:
    """Turn every PDF into running text with page offsets, or a reject with its reason.

    Reasons: ``encrypted``, ``damaged``, ``empty``, ``no_text`` (pictures of text), ``too_short``, ``too_long``,
    ``language:pt`` and the like, ``ocr_failed``, ``timeout``, ``memory``, ``crashed``.

    Raises:
        TransientError: a reader makes no progress, was told from outside to end, or killed well within its memory.
    """
    contents = rows["content"].to_pylist()
    records = rows.drop_columns(["content", "size_bytes"]).to_pylist()
    options = ReadOptions(params.engine, params.ocr_language if params.ocr else "")
    limits = Limits(params.cpu_limit_s, params.memory_limit_mib, params.patience)
    names = [row["url"] for row in records]
    processes = readers(settings().workers, memory_limit(), params.memory_limit_mib)
    results = run_limited(partial(read_pdf, options=options), contents, processes, limits, names)
    with run.progress(len(records), "documents") as meter:
        for row, result in zip(records, results, strict=True):
            meter.advance()
            table = _table(row, result) if isinstance(result, PdfText) else None
            if isinstance(result, Unreadable):
                run.reject(row["doc_id"], result.reason, f"{row['url']} {result.detail}".strip())
            elif table is None:
                run.reject(row["doc_id"], "crashed", f"{row['url']} what its reader said is no result")
            elif refusal := _refusal(result, params):
                run.reject(row["doc_id"], refusal, f"{row['url']} {result.n_words} words on {result.n_pages} pages")
            else:
                run.count("pages", result.n_pages)
                run.count("unreadable_pages", result.n_unreadable_pages)
                run.count("segments_off_page", result.n_off_page)
                yield table


def readers(workers: int, memory_bytes: int, limit_mib: int) -> int:
    """Workers at once: as many as are wanted and may all use what they may, but one at least."""
    return max(1, min(workers, memory_bytes // (limit_mib * MIB)))


def _table(row: dict[str, Any], found: PdfText) -> pa.Table | None:
    """The row of a document; None where a reader that a file took over gave a number that no row holds."""
    try:
        return DOCUMENTS.table([row | found.columns()])
    except (OverflowError, pa.ArrowException):
        return None


def _refusal(found: PdfText, params: ExtractTextParams) -> str:
    if found.n_words < params.min_words:
        return "too_short"
    if params.languages and found.language not in params.languages:
        return f"language:{found.language}"
    return ""
