from __future__ import annotations

import gzip
import hashlib
import socket
import struct
import zlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.crawl import crawl
from pipeline_tasks.datasets import URLS
from tests.corpus.web import Page, Web, answer, serving
from tests.ports import free_port
from tests.stores import go, put, reasons, rejects, rows

GZIP = {"Content-Encoding": "gzip"}
PDF = b"%PDF-1.7\n" + b"a small document " * 20
LIMIT = 10_000


def busy_once(handler: BaseHTTPRequestHandler, before: int) -> None:
    answer(503 if before == 0 else 200, PDF)(handler, before)


def spiral(handler: BaseHTTPRequestHandler, before: int) -> None:
    answer(302, Location=f"{handler.path}?more"[:99])(handler, before)


def odd_redirect(handler: BaseHTTPRequestHandler, _: int) -> None:
    """A space in the address, as careless servers send it."""
    answer(301, Location="/odd name;v=1.pdf?b=2&a=1#page=2")(handler, 0)


def announcing(size_bytes: int) -> Page:
    """A document with another length than it announces."""

    def page(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(size_bytes))
        handler.end_headers()
        handler.wfile.write(PDF)
        handler.close_connection = True

    return page


def reset(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Hang up before a word is said."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def garbage(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.wfile.write(b"what is this\r\n\r\n")


class Endless:
    """A document without end or announced length; counts what it could send before the reader hung up."""

    def __init__(self) -> None:
        self.sent = 0

    def __call__(self, handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(PDF)
        while self.sent < 1 << 30:
            self.sent += handler.wfile.write(bytes(1 << 16))


PAGES = {
    "/ok.pdf": answer(200, PDF),
    "/mislabelled": answer(200, PDF, "text/html"),
    "/late-magic.pdf": answer(200, b"\n" * 100 + PDF),
    "/busy-once.pdf": busy_once,
    "/busy.pdf": answer(503),
    "/throttled.pdf": answer(429),
    "/moved.pdf": answer(302, Location="/ok.pdf"),
    "/circle.pdf": answer(302, Location="/circle.pdf"),
    "/to-file.pdf": answer(302, Location="file:///etc/hostname"),
    "/to-nowhere.pdf": answer(302, Location="http://a..b/"),
    "/to-nothing.pdf": answer(302),
    "/to-ftp.pdf": answer(302, Location="ftp://example.org/a.pdf"),
    "/to-metadata.pdf": answer(302, Location="http://169.254.169.254/latest/meta-data/"),
    "/spiral.pdf": spiral,
    "/odd%20name;v=1.pdf?b=2&a=1": answer(200, PDF),
    "/to-odd.pdf": odd_redirect,
    "/gzip.pdf": answer(200, gzip.compress(PDF), **GZIP),
    "/two-members.pdf": answer(200, gzip.compress(PDF[:99]) + gzip.compress(PDF[99:]), **GZIP),
    "/zlib.pdf": answer(200, zlib.compress(PDF), **{"Content-Encoding": "deflate"}),
    "/bomb.pdf": answer(200, gzip.compress(PDF + bytes(50 << 20)), **GZIP),
    "/half-gzip.pdf": answer(200, gzip.compress(PDF)[:-20], **GZIP),
    "/no-gzip.pdf": answer(200, PDF, **GZIP),
    "/brotli.pdf": answer(200, PDF, **{"Content-Encoding": "br"}),
    "/cut-short.pdf": announcing(len(PDF) + 100),
    "/announced.pdf": announcing(LIMIT + 1),
    "/reset.pdf": reset,
    "/garbage.pdf": garbage,
    "/file-name.pdf": answer(200, PDF, **{"Content-Disposition": 'attachment; filename="../../etc/passwd"'}),
    "/charset.pdf": answer(200, PDF, "application/pdf; charset=no-such", **{"ETag": '"\u00e4"'}),
    "/many-headers.pdf": answer(200, PDF, **{"X-Long": "x" * 200_000}),
    "/not-modified.pdf": answer(304),
    "/page.pdf": answer(200, b"<!doctype html><p>Not here any more", "application/pdf"),
    "/empty.pdf": answer(200, b""),
    "/no-content.pdf": answer(204),
    "/exact.pdf": answer(200, PDF.ljust(LIMIT)),
    "/larger.pdf": answer(200, PDF.ljust(LIMIT + 1)),
}
REASONS = {
    "/gone.pdf": "http_404",
    "/busy.pdf": "http_503",
    "/throttled.pdf": "http_429",
    "/circle.pdf": "redirect_loop",
    "/spiral.pdf": "too_many_redirects",
    "/to-file.pdf": "bad_redirect",
    "/to-nothing.pdf": "bad_redirect",
    "/to-ftp.pdf": "bad_redirect",
    "/to-nowhere.pdf": "bad_url",
    "/to-metadata.pdf": "private_address",
    "/page.pdf": "not_pdf",
    "/empty.pdf": "not_pdf",
    "/no-content.pdf": "http_204",
    "/larger.pdf": "too_large",
    "/bomb.pdf": "too_large",
    "/announced.pdf": "too_large",
    "/half-gzip.pdf": "truncated",
    "/cut-short.pdf": "truncated",
    "/no-gzip.pdf": "bad_encoding",
    "/brotli.pdf": "bad_encoding",
    "/reset.pdf": "bad_response",
    "/garbage.pdf": "bad_response",
    "/many-headers.pdf": "bad_response",
    "/not-modified.pdf": "http_304",
}


def listed(store: LocalStore, *urls: str) -> None:
    put(store, URLS, [{"url_id": short_id(url), "url": url, "source": "test"} for url in urls])


def fetch(store: LocalStore, **values: object) -> Outcome:
    """Crawl what is listed; loopback is allowed, and nobody minds haste."""
    return go(store, crawl, **{"delay_s": 0} | values)


def endings(store: LocalStore) -> tuple[dict[str, dict], dict[str, str]]:
    """Downloads by address, reason of each refused row id."""
    downloads = {row["url"]: row for row in rows(store, "downloads")}
    return downloads, {key: row["reason"] for key, row in rejects(store, "downloads").items()}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalStore, Web]:
    """Every page of the server, and one that it lacks, crawled once."""
    store = LocalStore(tmp_path_factory.mktemp("crawled"))
    with serving(PAGES) as web:
        listed(store, *(web.url + path for path in {*PAGES, *REASONS}))
        outcome = fetch(store, max_bytes=LIMIT, attempts=2, timeout_s=5)
    assert outcome.counters["urls"] == outcome.counters["rows_in"] == len({*PAGES, *REASONS})
    assert outcome.counters["fetched"] == outcome.counters["rows_out"] == len({*PAGES} - {*REASONS})
    assert outcome.counters["requests"] == web.hits.total() + 2, "two led to where nothing is asked"
    return store, web


def test_every_address_ends_as_a_download_or_with_its_own_reason(crawled):
    store, web = crawled
    downloads, refused = endings(store)
    assert refused == {short_id(web.url + path): reason for path, reason in REASONS.items()}
    assert set(downloads) == {web.url + path for path in PAGES if path not in REASONS}


def test_a_download_holds_the_bytes_under_the_address_that_was_listed(crawled):
    store, web = crawled
    downloads, _ = endings(store)
    moved = {web.url + path for path in ("/moved.pdf", "/to-odd.pdf")}
    assert {row["fetched_url"] for row in downloads.values()} == {*downloads} - moved
    for path in {*PAGES} - {*REASONS, "/exact.pdf", "/late-magic.pdf"}:
        row = downloads[web.url + path]
        assert row["content"] == PDF
        assert row["content_sha256"] == hashlib.sha256(PDF).hexdigest()
        assert row["doc_id"] == short_id(row["url_id"], row["content_sha256"])
        assert row["size_bytes"] == len(PDF)


def test_only_what_may_get_better_is_tried_again(crawled):
    _, web = crawled
    assert {path: web.hits[path] for path in ("/busy.pdf", "/throttled.pdf", "/busy-once.pdf")} == dict.fromkeys(
        ("/busy.pdf", "/throttled.pdf", "/busy-once.pdf"), 2
    )
    assert web.hits["/gone.pdf"] == web.hits["/page.pdf"] == web.hits["/larger.pdf"] == 1


def test_a_document_without_end_is_left_early(store: LocalStore):
    endless = Endless()
    with serving({"/endless.pdf": endless}) as web:
        listed(store, f"{web.url}/endless.pdf")
        fetch(store, max_bytes=1 << 20)
    assert endings(store) == ({}, {short_id(f"{web.url}/endless.pdf"): "too_large"})
    assert endless.sent < 64 << 20


def test_addresses_that_nobody_answers(store: LocalStore):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        refusing = f"http://127.0.0.1:{free_port()}/a.pdf"
        mute, odd, long = f"http://127.0.0.1:{port}/a.pdf", "http://a..b/a.pdf", f"http://{'a' * 80}.org/a.pdf"
        listed(store, refusing, mute, odd, long)
        fetch(store, attempts=1, timeout_s=0.3)
    _, refused = endings(store)
    assert refused == {
        short_id(refusing): "unreachable",
        short_id(mute): "timeout",
        short_id(odd): "bad_url",
        short_id(long): "bad_url",
    }


def test_files_of_this_machine(store: LocalStore, tmp_path: Path):
    good, large, folder = tmp_path / "a b#.pdf", tmp_path / "large.pdf", tmp_path / "folder.pdf"
    good.write_bytes(PDF)
    large.write_bytes(PDF.ljust(LIMIT + 1))
    folder.mkdir()
    missing, endless_name = (tmp_path / "missing.pdf").as_uri(), f"file:///{'a' * 300}.pdf"
    listed(store, good.as_uri(), large.as_uri(), folder.as_uri(), missing, endless_name)
    fetch(store, max_bytes=LIMIT)
    downloads, refused = endings(store)
    assert downloads[good.as_uri()]["content"] == PDF
    assert refused == {
        short_id(large.as_uri()): "too_large",
        short_id(folder.as_uri()): "missing_file",
        short_id(missing): "missing_file",
        short_id(endless_name): "unreadable_file",
    }


def test_an_address_is_fetched_once_until_a_refresh_is_asked_for(store: LocalStore):
    with serving({"/ok.pdf": answer(200, PDF)}) as web:
        listed(store, f"{web.url}/ok.pdf")
        first = fetch(store)
        assert fetch(store).ref == first.ref
        assert web.hits["/ok.pdf"] == 1
        web.pages["/ok.pdf"] = answer(200, PDF + b"more")
        assert fetch(store, refresh="2026-01-01").ref != first.ref
        assert web.hits["/ok.pdf"] == 2
    assert [row["content"] for row in rows(store, "downloads")] == [PDF + b"more"]


@pytest.mark.parametrize("away", [{"/robots.txt": answer(503)}, {"/b.pdf": answer(503, **{"Retry-After": "3600"})}])
def test_a_site_that_was_away_when_a_crawl_ended_early_is_asked_again(store: LocalStore, away):
    page = answer(200, PDF)
    with serving({"/a.pdf": page}) as web, serving({"/b.pdf": page} | away) as other:
        listed(store, f"{web.url}/a.pdf")
        fetch(store)
        listed(store, f"{web.url}/a.pdf", f"{other.url}/b.pdf")
        web.pages["/a.pdf"] = answer(404)
        with pytest.raises(InputError, match="would withdraw"):
            fetch(store, refresh="2026-01-01", attempts=1)
        web.pages["/a.pdf"], other.pages = page, {"/b.pdf": page}
        fetch(store, refresh="2026-01-01", attempts=1)
    assert set(endings(store)[0]) == {f"{web.url}/a.pdf", f"{other.url}/b.pdf"}


@pytest.mark.parametrize("name", ["", "/1.0", " bot", "bot\nX-Injected: 1"])
def test_a_name_that_robots_txt_cannot_know_is_the_callers_mistake(store: LocalStore, name):
    listed(store, "http://example.org/a.pdf")
    with pytest.raises(InputError, match="user_agent"):
        fetch(store, user_agent=name)


def test_a_host_that_the_operator_allows_from_now_on_is_asked(store: LocalStore, configure):
    with serving({"/a.pdf": answer(200, PDF)}) as web:
        listed(store, f"{web.url}/a.pdf")
        configure(allow_hosts="intranet:8080")
        fetch(store)
        assert reasons(store, "downloads") == {"private_address": 1}
        configure(allow_hosts=f"Intranet:8080, {web.host}")
        fetch(store)
    assert [row["content"] for row in rows(store, "downloads")] == [PDF]


def test_no_parameter_opens_the_network(store: LocalStore):
    with pytest.raises(InputError, match="allow_hosts"):
        fetch(store, allow_hosts=("127.0.0.1",))
