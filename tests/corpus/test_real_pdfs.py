"""Fifty PDFs as they are found in the wild; they lie beside the checkout and are not part of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.extract_text import extract_text
from pipeline_tasks.corpus.list_urls import list_urls
from pipeline_tasks.corpus.near_duplicate_documents import near_duplicate_documents
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from tests.stores import go, rejects, rows

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "pdfs"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no PDFs in {FOLDER}")
GUIDE, MANUAL = "IGIS0700b.pdf", "SMIS0700b.pdf"


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    """Texts of every file, read in worker processes."""
    store = LocalStore(tmp_path_factory.mktemp("real"))
    assert go(store, list_urls, source=str(FOLDER)).counters["rows_out"] == 50
    go(store, crawl)
    go(store, extract_text)
    return store


def test_every_file_is_a_document_or_has_a_reason(extracted):
    with (FOLDER / "manifest.csv").open(encoding="utf-8", newline="") as file:
        facts = {row["file"].rsplit("/")[-1]: row for row in csv.DictReader(file)}
    texts = {Path(row["url"]).name: row for row in rows(extracted, "texts")}
    refused = {
        Path(row["detail"].split()[0]).name: row["reason"]
        for dataset in ("downloads", "texts")
        for row in rejects(extracted, dataset).values()
    }
    assert len(facts) == len(texts) + len(refused) == 50 and set(facts) == {*texts, *refused}
    for name, reason in refused.items():
        if facts[name]["magic"] == "html":
            assert reason == "not_pdf", name
        elif facts[name]["encrypted"] == "True":
            assert reason == "encrypted", name
        else:
            assert reason in ("damaged", "no_text", "too_short") and int(facts[name]["words"] or 0) < 50, name
    for name, row in texts.items():
        assert row["n_words"] >= 50 and row["title"].strip(), name
        assert len(row["page_starts"]) == row["n_pages"] == int(facts[name]["pages"]), name


@pytest.mark.parametrize(("threshold", "merged"), [(0.7, True), (0.8, False)])
def test_a_guide_and_its_manual_are_one_below_their_similarity_only(extracted, threshold, merged):
    go(extracted, sketch_documents)
    go(extracted, cluster_documents, threshold=threshold)
    outcome = go(extracted, near_duplicate_documents)
    kept = {Path(row["url"]).name for row in rows(extracted, "documents")}
    assert GUIDE in kept and (MANUAL not in kept) == merged
    details = [row["detail"] for row in rejects(extracted, "documents").values()]
    assert any(MANUAL in detail and GUIDE in detail for detail in details) == merged
    assert outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == len(rows(extracted, "texts"))
