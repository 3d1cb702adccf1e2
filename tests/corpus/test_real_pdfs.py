"""Fifty PDFs as they are found in the wild; they lie beside the checkout and are not part of it."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.corpus.extract_text import extract_text
from pipeline_tasks.corpus.list_urls import list_urls
from pipeline_tasks.corpus.near_duplicate_documents import near_duplicate_documents
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.texts.clusters import cluster, shared_buckets
from pipeline_tasks.texts.minhash import band_keys, band_rows, sketch_texts
from tests.stores import go, rejects, rows

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "pdfs"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no PDFs in {FOLDER}")
LANGUAGES = {"multicolumn.pdf": "language:la"}
"""What the manifest has wrong: this one is lorem ipsum."""
FEW_WORDS = {
    "malformed-from-issue-932.pdf": "too_short",
    "issue-297.pdf": "too_short",
    "habibi.pdf": "too_short",
    "imagemagick-CCITTFaxDecode.pdf": "no_text",
    "edgar_image.pdf": "no_text",
    "blanktext.pdf": "empty",
    "unreadablemetadata.pdf": "damaged",
}
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
        elif reason.startswith("language:"):
            assert reason == LANGUAGES.get(name, f"language:{facts[name]['lang']}"), name
        else:
            assert reason == FEW_WORDS[name] and int(facts[name]["words"] or 0) < 50, name
    assert set(FEW_WORDS) <= set(refused) and sum(reason == "language:pt" for reason in refused.values()) == 3
    assert len(texts) == 35 and {n for n in facts if facts[n]["file"].startswith("disaster/")} <= set(texts)
    for name, row in texts.items():
        assert row["n_words"] >= 50 and row["title"].strip() and row["language"] == "en", name
        assert len(row["page_starts"]) == row["n_pages"] == int(facts[name]["pages"]), name
        assert row["n_unreadable_pages"] == 0, name


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("pdftotext_two_column_issue.pdf", "lymphoedema, inner ear problems and coarctation of aorta (CoA)"),
        ("edgar-rotated90.pdf", "the younger son of King Edmund I and his first wife"),
        (
            "National_Incident_Management_System_Third_Edition_October_2017.pdf",
            "budgets.\n\nMobilizing fixed facility",
        ),
        (GUIDE, "\u2022 Describe features of Mutual Aid.\n\nScope\n\n\u2022 Objectives"),
        (
            "IS0200c_POI.pdf",
            "Course Objectives\n\nThe course objectives are to allow course participants to:",
        ),
        (
            "repeating_references_on_pg9_pg10.pdf",
            "the second-round mutants compared with that of the first-round mutants",
        ),
    ],
)
def test_what_was_read_by_eye_stays_so(extracted, name, phrase):
    text = next(row["text"] for row in rows(extracted, "texts") if Path(row["url"]).name == name)
    assert phrase in text


def test_references_headers_and_cells_are_out_of_the_text(extracted):
    found = {Path(row["url"]).name: row for row in rows(extracted, "texts")}
    for name, kind, words in [
        ("pdftotext_two_column_issue.pdf", "running", "Downloaded from https://academic.oup.com"),
        ("pdftotext_two_column_issue.pdf", "references", "Gravholt CH"),
        ("repeating_references_on_pg9_pg10.pdf", "references", "Curr Genet 35:647"),
        ("ics_form_201_incident_briefing_v3.pdf", "table", "Enter the name assigned to the incident."),
        (GUIDE, "table", "Steps for Managing Incident Resources\t20 minutes"),
    ]:
        assert words not in found[name]["text"], name
        assert any(words in a["text"] for a in found[name]["asides"] if a["kind"] == kind), name


@pytest.mark.parametrize(("threshold", "merged"), [(0.8, True), (0.9, False)])
def test_a_guide_and_its_manual_are_one_below_their_similarity_only(extracted, threshold, merged):
    go(extracted, sketch_documents)
    go(extracted, cluster_documents, threshold=threshold)
    outcome = go(extracted, near_duplicate_documents)
    kept = {Path(row["url"]).name for row in rows(extracted, "documents")}
    assert GUIDE in kept and (MANUAL not in kept) == merged
    details = [row["detail"] for row in rejects(extracted, "documents").values()]
    assert any(MANUAL in detail and GUIDE in detail for detail in details) == merged
    assert outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == len(rows(extracted, "texts"))


@pytest.mark.parametrize(("threshold", "alike"), [(0.7, True), (0.8, False)])
def test_with_headers_and_page_numbers_in_the_text_they_are_less_alike(threshold, alike):
    """0.754 on everything that is printed on their pages, 0.815 on the running text."""
    import pymupdf

    texts = []
    for name in (GUIDE, MANUAL):
        with pymupdf.open(FOLDER / "disaster" / name) as pdf:
            texts.append("\n".join(page.get_text() for page in pdf))
    sketches = sketch_texts(pa.array(texts))
    keys = band_keys(sketches.signatures, band_rows(threshold, 128))
    originals, _, _ = cluster(shared_buckets(keys).T.copy(), sketches.shingles, sketches.offsets, threshold)
    assert originals.tolist() == ([0, 0] if alike else [0, 1])
