from __future__ import annotations

import pymupdf
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.extract_text import _table, extract_text, readers
from pipeline_tasks.corpus.pdf.model import Aside, PdfText
from pipeline_tasks.datasets import DOWNLOADS
from tests.corpus.pdfs import PAGE, pdf
from tests.stores import go, put, rejects, rows

GIB = 1 << 30


@pytest.mark.parametrize(
    ("workers", "memory_gib", "limit_mib", "n"), [(8, 4, 1024, 4), (2, 4, 1024, 2), (8, 4, 512, 8), (8, 0.5, 1024, 1)]
)
def test_no_more_readers_than_may_all_use_what_they_may(workers, memory_gib, limit_mib, n):
    assert readers(workers, int(memory_gib * GIB), limit_mib) == n


@pytest.mark.parametrize("number", [1 << 31, 10**30])
def test_a_number_that_no_row_holds_is_no_result(number):
    assert _table({}, PdfText("", "A river rises.", [0], 1, 3, asides=[Aside("table", 1, "7")])).num_rows == 1
    assert _table({}, PdfText("", "A river rises.", [0], number, 3)) is None
    assert _table({}, PdfText("", "A river rises.", [number], 1, 3)) is None


def test_a_document_of_too_many_pages_with_one_content_is_a_reject_that_names_its_address(store: LocalStore):
    lines = [((36, 30 + 2 * n), "The river rises over the road in the night. " * 2) for n in range(370)]
    with pymupdf.open(stream=pdf(lines)) as document:
        content, resources = (document.xref_get_key(document[0].xref, key)[1] for key in ("Contents", "Resources"))
        for _ in range(320):
            page = document.new_page(width=PAGE.width, height=PAGE.height)
            document.xref_set_key(page.xref, "Contents", content)
            document.xref_set_key(page.xref, "Resources", resources)
        small = document.tobytes(deflate=True)
    put(store, DOWNLOADS, [{"doc_id": "a", "url": "http://a/a.pdf", "content": small}])
    go(store, extract_text)
    (refused,) = rejects(store, "texts").values()
    assert (refused["reason"], refused["detail"]) == ("too_long", "http://a/a.pdf more than 10000000 characters")


def test_what_stands_off_the_page_of_a_document_is_counted(store: LocalStore):
    content = pdf([((72, 300), "A river rises."), ((5000, 300), "Nobody sees this.")])
    put(store, DOWNLOADS, [{"doc_id": "a", "url": "http://a/a.pdf", "content": content}])
    found = go(store, extract_text, engine="pypdfium2", languages=[], min_words=1)
    assert [row["text"] for row in rows(store, "texts")] == ["A river rises."]
    assert found.counters["segments_off_page"] == 1
