from __future__ import annotations

import os
import shutil
from functools import partial

import pymupdf
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.extract_text import ExtractTextParams
from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.ocr import tesseract_identity
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.pdfs import pdf

SENTENCE = "Move the car to a higher street before the water comes."


def test_asking_for_it_without_the_program_is_the_callers_mistake(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ocr" not in ExtractTextParams().identity()["libraries"]
    with pytest.raises(InputError, match="apt install tesseract-ocr; the images .* have none"):
        ExtractTextParams(ocr=True).identity()


def test_the_files_of_its_languages_are_part_of_the_version(monkeypatch, tmp_path):
    program = tmp_path / "tesseract"
    program.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && echo 'tesseract 5.3.0' || echo 'List of available languages in "{tmp_path}" (2):'
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("eng", "deu"):
        (tmp_path / f"{name}.traineddata").write_bytes(name.encode())
    first = ExtractTextParams(ocr=True, ocr_language="eng+deu").identity()
    assert [told.split()[0] for told in first["libraries"]["ocr"]] == ["tesseract", "eng", "deu"]
    english = ExtractTextParams(ocr=True).identity()
    (tmp_path / "deu.traineddata").write_bytes(b"another")
    assert ExtractTextParams(ocr=True, ocr_language="eng+deu").identity() != first
    assert ExtractTextParams(ocr=True).identity() == english
    with pytest.raises(InputError, match="has no 'fra'.*apt install tesseract-ocr-fra"):
        ExtractTextParams(ocr=True, ocr_language="eng+fra").identity()


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
    assert "tesseract" in tesseract_identity("eng")[0]


def test_a_confined_worker_reads_it_and_its_time_counts(scan):
    read = partial(read_pdf, options=ReadOptions(ocr_language="eng"))
    (found,) = run_limited(read, [scan], 1, Limits(60))
    assert isinstance(found, PdfText) and found.text == SENTENCE
    (found,) = run_limited(read, [scan], 1, Limits(0.1, patience=600))
    assert found.reason == "timeout"
