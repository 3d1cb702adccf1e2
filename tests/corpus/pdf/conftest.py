import pytest

from pipeline_tasks.corpus.pdf.model import PdfText
from pipeline_tasks.corpus.pdf.read import ReadOptions, read_pdf


@pytest.fixture
def read(engine: str):
    """Bytes of a readable PDF to its text."""

    def reader(content: bytes) -> PdfText:
        found = read_pdf(content, ReadOptions(engine))
        assert isinstance(found, PdfText), found
        return found

    return reader


@pytest.fixture
def refused(engine: str):
    """Bytes of a PDF without text to the reason."""

    def reader(content: bytes) -> str:
        found = read_pdf(content, ReadOptions(engine))
        assert not isinstance(found, PdfText), found
        return found.reason

    return reader
