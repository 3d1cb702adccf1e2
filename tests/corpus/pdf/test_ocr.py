from __future__ import annotations

import shutil

import pymupdf
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.extract_text import ExtractTextParams
from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.ocr import tesseract_version
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from tests.corpus.pdfs import pdf

SENTENCE = "Move the car to a higher street before the water comes."


def test_asking_for_it_without_the_program_is_the_callers_mistake(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ocr" not in ExtractTextParams().identity()["libraries"]
    with pytest.raises(InputError, match="apt install tesseract-ocr"):
        ExtractTextParams(ocr=True).identity()


@pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")
def test_a_picture_of_text_is_read(engine):
    with pymupdf.open(stream=pdf([((72, 300), SENTENCE)])) as drawn, pymupdf.open() as scan:
        picture = drawn[0].get_pixmap(dpi=200)
        page = scan.new_page(width=drawn[0].rect.width, height=drawn[0].rect.height)
        page.insert_image(page.rect, pixmap=picture)
        content = scan.tobytes(deflate=True)
    assert read_pdf(content, ReadOptions(engine)).reason == "no_text"
    found = read_pdf(content, ReadOptions(engine, ocr_language="eng"))
    assert isinstance(found, PdfText) and found.text == SENTENCE
    assert read_pdf(content, ReadOptions(engine, ocr_language="xx")).reason == "ocr_failed"
    assert "tesseract" in tesseract_version()
