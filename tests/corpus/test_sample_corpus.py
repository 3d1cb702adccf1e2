"""The sample corpus from its website to documents: every file ends as a document or with its own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipeline_tasks
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.extract_text import extract_text
from pipeline_tasks.corpus.list_urls import list_urls
from pipeline_tasks.corpus.near_duplicate_documents import near_duplicate_documents
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.demo.sample import load_documents
from pipeline_tasks.demo.site import URL_LIST, build_site, serve_site
from tests.stores import go, rejects, rows

SAMPLE = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"
DOCUMENTS = load_documents(SAMPLE)
HARD = {
    "html": ("downloads", "not_pdf"),
    "encrypted": ("texts", "encrypted"),
    "image_only": ("texts", "no_text"),
}
HARD |= {"truncated": ("texts", "damaged")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalStore, str]:
    """A store with the documents of the whole sample, and the site's address."""
    folder = tmp_path_factory.mktemp("sample")
    build_site(SAMPLE, folder / "site")
    store = LocalStore(folder / "store")
    with serve_site(folder / "site") as site:
        go(store, list_urls, source=site + URL_LIST)
        go(store, crawl, delay_s=0)
    go(store, extract_text)
    go(store, sketch_documents)
    go(store, cluster_documents)
    go(store, near_duplicate_documents)
    return store, site


def refused(store: LocalStore, dataset: str) -> dict[str, str]:
    return {
        row["detail"].split()[-1 if dataset == "documents" else 0]: row["reason"]
        for row in rejects(store, dataset).values()
    }


def test_each_hard_document_ends_with_its_own_reason(built):
    store, site = built
    for document in DOCUMENTS:
        if document.layout in HARD:
            dataset, reason = HARD[document.layout]
            assert refused(store, dataset).pop(site + document.path) == reason
    assert {reason for dataset in ("downloads", "texts") for reason in refused(store, dataset).values()} == {
        reason for _, reason in HARD.values()
    }


def test_the_second_address_of_the_same_bytes_is_a_duplicate(built):
    store, site = built
    twins = [document.paths for document in DOCUMENTS if document.also_at]
    assert twins
    for paths in twins:
        assert sum(refused(store, "documents").get(site + path) == "near_duplicate_document" for path in paths) == 1


def test_every_address_is_accounted_for(built):
    store, site = built
    listed = {row["url"] for row in rows(store, "urls")}
    assert listed == {site + path for document in DOCUMENTS for path in document.paths}
    ends = [
        {row["url"] for row in rows(store, "documents")},
        *({*refused(store, d)} for d in ("downloads", "texts", "documents")),
    ]
    assert set().union(*ends) == listed
    assert sum(map(len, ends)) == len(listed)


def test_documents_keep_the_title_and_text_of_what_was_written(built):
    store, site = built
    found = {row["url"]: row for row in rows(store, "documents")}
    for document in DOCUMENTS:
        row = found.get(site + document.path)
        if row is None:
            continue
        assert row["title"] == document.title
        assert row["doc_id"] == short_id(row["url_id"], row["content_sha256"])
        cells = [line.strip("|") for line in document.body.splitlines() if line.startswith("|") and "---" not in line]
        prose = "\n".join(line for line in document.body.splitlines() if not line.startswith("|"))
        written = {word for word in prose.lower().split() if word.isalpha()}
        assert written <= set(row["text"].lower().split())
        kept = " ".join(" ".join(aside["text"] for aside in row["asides"] if aside["kind"] == "table").split())
        words = {word for line in cells for word in line.split() if word.isalpha()}
        assert words <= set(kept.split()) and not any(line.split("|")[0].strip() in row["text"] for line in cells[1:2])
        assert (row["language"], row["date"], row["created"]) == ("en", *[document.date.isoformat()] * 2)
