from __future__ import annotations

import shutil
from functools import partial

import pymupdf
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.extract_text import ExtractTextParams
from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.ocr import tesseract_version
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.pdfs import pdf

SENTENCE = "Move the car to a higher street before the water comes."


def test_asking_for_it_without_the_program_is_the_callers_mistake(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ocr" not in ExtractTextParams().identity()["libraries"]
    with pytest.raises(InputError, match="apt install tesseract-ocr"):
        ExtractTextParams(ocr=True).identity()


@pytest.fixture
def scan() -> bytes:
    """A page that is a picture of a sentence."""
    if not shutil.which("tesseract"):
        pytest.skip("tesseract is not installed")
    with pymupdf.open(stream=pdf([((72, 300), SENTENCE)])) as drawn, pymupdf.open() as scan:
        picture = drawn[0].get_pixmap(dpi=200)
        page = scan.new_page(width=drawn[0].rect.width, height=drawn[0].rect.height)
        page.insert_image(page.rect, pixmap=picture)
        return scan.tobytes(deflate=True)


def test_a_picture_of_text_is_read(scan, engine):
    assert read_pdf(scan, ReadOptions(engine)).reason == "no_text"
    found = read_pdf(scan, ReadOptions(engine, ocr_language="eng"))
    assert isinstance(found, PdfText) and found.text == SENTENCE
    assert read_pdf(scan, ReadOptions(engine, ocr_language="xx")).reason == "ocr_failed"
    assert "tesseract" in tesseract_version()


def test_a_confined_worker_reads_it_and_its_time_counts(scan):
    read = partial(read_pdf, options=ReadOptions(ocr_language="eng"))
    (found,) = run_limited(read, [scan], 1, Limits(60))
    assert isinstance(found, PdfText) and found.text == SENTENCE
    (found,) = run_limited(read, [scan], 1, Limits(0.1, patience=600))
    assert found.reason == "timeout"
