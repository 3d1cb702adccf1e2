"""The sample corpus, the files it is turned into, and the server they come from."""

import hashlib
import http.client
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pymupdf
import pytest

import pipeline_tasks
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.demo.render_pdf import USER_LOCK, render
from pipeline_tasks.demo.site import URL_LIST, SampleDocument, build_site, load_documents, serve_site

SAMPLE = Path(pipeline_tasks.__file__).parent / "domains" / "disaster" / "sample"
DOCUMENTS = load_documents(SAMPLE)
HARD = ("encrypted", "image_only", "truncated", "html")
SMALL = """+++
title = "A small flood"
path = "floods/small.pdf"
subject = "flood"
layout = "plain"
also_at = "mirror/small.pdf"
date = 2024-05-01
+++
Move to higher ground.

## Then wait

- Listen to the radio,
  all night.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample site, built once."""
    out_dir = tmp_path_factory.mktemp("site")
    build_site(SAMPLE, out_dir)
    return out_dir


def first(layout: str) -> SampleDocument:
    """The first document of the sample that has this layout."""
    return next(document for document in DOCUMENTS if document.layout == layout)


def text_of(content: bytes) -> str:
    """The text layer of a PDF."""
    with pymupdf.open(stream=content, filetype="pdf") as pdf:
        return "\n".join(page.get_text() for page in pdf)


def shingles(text: str) -> set[tuple[str, ...]]:
    """The runs of five words of a text."""
    words = text.split()
    return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}


def test_the_sample_is_as_large_and_varied_as_promised() -> None:
    """Thirty documents of 300 to 1,500 words about twelve subjects, every hard layout among them."""
    assert len(DOCUMENTS) >= 30
    assert len({document.subject for document in DOCUMENTS}) >= 12
    assert {"two_column", "tables", *HARD} <= {document.layout for document in DOCUMENTS}
    assert any(document.also_at for document in DOCUMENTS)
    odd = {document.name: len(document.body.split()) for document in DOCUMENTS}
    assert not {name: words for name, words in odd.items() if not 300 <= words <= 1500}


def test_same_bytes_in_another_process(site: Path) -> None:
    """A second process, with other hash seeds and counters, renders every layout to the same bytes."""
    by_layout = {document.layout: document for document in DOCUMENTS}
    code = """
import hashlib, pathlib, sys
from pipeline_tasks.demo.render_pdf import render
from pipeline_tasks.demo.sample import parse_document
for name in sys.argv[1:]:
    sys.stdout.write(hashlib.sha256(render(parse_document(pathlib.Path(name)))).hexdigest() + "\\n")
"""
    files = [str(SAMPLE / f"{document.name}.md") for document in by_layout.values()]
    root = Path(pipeline_tasks.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code, *files], cwd=root, capture_output=True, text=True, check=True)
    here = [hashlib.sha256((site / document.path).read_bytes()).hexdigest() for document in by_layout.values()]
    assert done.stdout.split()[-len(here) :] == here


@pytest.mark.parametrize("layout", ["plain", "two_column", "tables"])
def test_every_word_extracts_in_reading_order(site: Path, layout: str) -> None:
    """The text layer is the source: same words, same order, no hyphens added."""
    for document in DOCUMENTS:
        if document.layout != layout:
            continue
        words = text_of((site / document.path).read_bytes()).split()
        paragraphs = [
            line for line in document.body.replace("**", "").split("\n\n") if not line.startswith(("|", "-", "#"))
        ]
        for paragraph in paragraphs:
            expected = paragraph.split()[:12]
            starts = [place for place, word in enumerate(words) if word == expected[0]]
            assert any(words[place : place + len(expected)] == expected for place in starts), paragraph[:80]


def test_tables_have_running_headers_and_page_numbers(site: Path) -> None:
    """Every page of the document with tables has its title above and its number below."""
    for document in (document for document in DOCUMENTS if document.layout == "tables"):
        with pymupdf.open(site / document.path) as pdf:
            assert pdf.page_count >= 2
            for number, page in enumerate(pdf, start=1):
                lines = page.get_text().splitlines()
                assert lines[0] == document.title
                assert lines[-1] == f"Page {number} of {pdf.page_count}"


def test_two_columns_stand_side_by_side(site: Path) -> None:
    """Lines begin at two distinct left edges, and no line crosses the gutter."""
    with pymupdf.open(site / first("two_column").path) as pdf:
        words = [word for word in pdf[0].get_text("words") if word[1] > 140]
    assert any(word[0] > 318 for word in words)
    assert not [word for word in words if word[0] < 294 and word[2] > 318]


def test_encrypted_needs_its_password(site: Path) -> None:
    """No page opens without the password; with it the text is there."""
    with pymupdf.open(site / first("encrypted").path) as pdf:
        assert pdf.needs_pass
        with pytest.raises(ValueError, match="closed or encrypted"):
            pdf[0].get_text()
        assert pdf.authenticate(USER_LOCK)
        assert "reception center" in pdf[0].get_text()


def test_image_only_has_pages_and_no_text(site: Path) -> None:
    """A picture on each page, and an empty text layer."""
    with pymupdf.open(site / first("image_only").path) as pdf:
        assert [len(page.get_images()) for page in pdf] == [1] * pdf.page_count
        assert pdf.page_count >= 1
        assert not "".join(page.get_text() for page in pdf).strip()


def test_truncated_is_beyond_repair(site: Path) -> None:
    """It begins like a PDF, and MuPDF's repair finds no page in it."""
    content = (site / first("truncated").path).read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"%%EOF" not in content
    try:
        text = text_of(content)
    except (pymupdf.FileDataError, RuntimeError):
        text = ""
    assert not text.strip()


def test_html_is_no_pdf(site: Path) -> None:
    """The file named .pdf is a web page."""
    content = (site / first("html").path).read_bytes()
    assert content.startswith(b"<!DOCTYPE html>")
    assert b"%PDF" not in content


def test_copies_are_exact_and_revisions_are_near(site: Path) -> None:
    """A second URL has the same bytes; the two revisions share over 85% of their five-word shingles."""
    copied = next(document for document in DOCUMENTS if document.also_at)
    assert (site / copied.path).read_bytes() == (site / copied.also_at).read_bytes()
    old, new = (
        shingles(text_of((site / f"wildfires/defensible-space-{year}.pdf").read_bytes())) for year in (2023, 2024)
    )
    assert 0.85 < len(old & new) / len(old | new) < 1


def test_a_second_build_writes_nothing(tmp_path: Path) -> None:
    """Unchanged files keep their modification time; a PDF put there by hand is listed and left alone."""
    folder, out_dir = tmp_path / "sample", tmp_path / "site"
    folder.mkdir()
    (folder / "a.md").write_text(SMALL)
    assert build_site(folder, out_dir) == ["floods/small.pdf", "mirror/small.pdf"]
    before = {file: file.stat().st_mtime_ns for file in out_dir.rglob("*")}
    assert build_site(folder, out_dir) == ["floods/small.pdf", "mirror/small.pdf"]
    assert {file: file.stat().st_mtime_ns for file in out_dir.rglob("*")} == before
    (out_dir / "added one.pdf").write_bytes(render(first("two_column")))
    assert build_site(folder, out_dir) == ["added%20one.pdf", "floods/small.pdf", "mirror/small.pdf"]
    assert (out_dir / URL_LIST).read_text() == "added%20one.pdf\nfloods/small.pdf\nmirror/small.pdf\n"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("+++\ntitle", "title", "no front matter"),
        ('title = "A small flood"', "title = A", "not TOML"),
        ('subject = "flood"\n', "", "subject = None"),
        ('"plain"', '"fancy"', "layout = 'fancy'"),
        ("floods/small.pdf", "../small.pdf", r"path = '\.\./small\.pdf'"),
        ("mirror/small.pdf", "floods/small.pdf", "is taken by"),
        ("2024-05-01", '"yesterday"', "YYYY-MM-DD"),
        ("higher ground", "higher \u2192 ground", "Latin-1"),
        ("also_at", "twin", "unknown keys"),
    ],
)
def test_a_malformed_document_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """The error names the file and what is wrong with it."""
    assert old in SMALL
    (tmp_path / "bad.md").write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as caught:
        load_documents(tmp_path)
    assert "bad.md" in str(caught.value)


def test_the_list_leads_to_every_file(site: Path) -> None:
    """Each line of urls.txt, resolved against the list's own URL, is served whole and as a PDF by name."""
    with serve_site(site) as base:
        with urlopen(urljoin(base, URL_LIST)) as answer:
            listed = answer.read().decode().split()
        assert len(listed) == sum(len(document.paths) for document in DOCUMENTS)
        for path in listed:
            with urlopen(urljoin(f"{base}{URL_LIST}", path)) as answer:
                assert answer.headers["Content-Type"] == "application/pdf"
                assert answer.read() == (site / path).read_bytes()


@pytest.mark.parametrize(
    "target",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/floods/../../secret.txt", "/link.txt", "/floods/", "/"],
)
def test_nothing_outside_the_site_is_served(tmp_path: Path, target: str) -> None:
    """Dots, encoded dots, links that lead outside and folder listings are all answered with 404."""
    out_dir = tmp_path / "site"
    (out_dir / "floods").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (out_dir / "link.txt").symlink_to(tmp_path / "secret.txt")
    with serve_site(out_dir) as base:
        connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=10)
        connection.request("GET", target)
        answer = connection.getresponse()
        assert (answer.status, b"secret" in answer.read()) == (404, False)
        connection.close()


def test_a_taken_port_is_the_callers_error(tmp_path: Path) -> None:
    """A port in use, a port out of range and a missing folder are named; a freed port can be had again."""
    with serve_site(tmp_path) as base:
        port = urlsplit(base).port
        with pytest.raises(InputError, match=f"port {port} .* taken"), serve_site(tmp_path, port=port):
            pass
    with serve_site(tmp_path, port=port) as again:
        assert again == base
    with pytest.raises(InputError, match="70000"), serve_site(tmp_path, port=70000):
        pass
    with pytest.raises(InputError, match="not a folder"), serve_site(tmp_path / "none"):
        pass
