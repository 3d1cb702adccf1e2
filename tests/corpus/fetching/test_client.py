"""TLS that breaks after the handshake ends its own address, and no other."""

from __future__ import annotations

import socket
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.corpus.fetching.list_text import fetch_list
from tests.core.store.test_faulty_server import self_signed
from tests.corpus.fetching.parts import PDF, fetch_all
from tests.corpus.web import answer, serving


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's, with a certificate that is trusted here."""
    (tmp_path / "tls").mkdir()
    context = self_signed(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "cert.pem"))
    return context


def unencrypted(handler: BaseHTTPRequestHandler, _: int) -> None:
    """An answer that goes around TLS."""
    socket.socket.sendall(handler.connection, b"HTTP/1.1 500 plain text\r\n\r\n")


def unencrypted_midway(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(2 * len(PDF)))
    handler.end_headers()
    handler.wfile.write(PDF)
    socket.socket.sendall(handler.connection, PDF)


def test_a_document_comes_over_tls(tmp_path: Path, tls: ssl.SSLContext):
    with serving({"/a.pdf": answer(200, PDF)}, tls) as web:
        url = f"{web.url}/a.pdf"
        assert fetch_all(tmp_path, [url])[url].end == "fetched"


@pytest.mark.parametrize(("page", "reason"), [(unencrypted, "bad_response"), (unencrypted_midway, "truncated")])
def test_what_is_no_tls_after_the_handshake_is_tried_again_and_refused(tmp_path: Path, tls, page, reason):
    with serving({"/a.pdf": page}, tls) as web, serving({"/b.pdf": answer(200, PDF)}) as other:
        broken, whole = f"{web.url}/a.pdf", f"{other.url}/b.pdf"
        ends = fetch_all(tmp_path, [broken, whole])
    assert (ends[broken].reason, ends[broken].attempts, ends[whole].end) == (reason, 2, "fetched")
    assert "SSL" in ends[broken].detail and web.hits["/a.pdf"] == 2


def test_a_server_that_wants_our_certificate_is_refused(tmp_path: Path, tls: ssl.SSLContext):
    """It says so after a TLS 1.3 handshake, in place of an answer."""
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    with serving({"/a.pdf": answer(200, PDF)}, tls) as web, serving({"/b.pdf": answer(200, PDF)}) as other:
        closed, whole = f"{web.url}/a.pdf", f"{other.url}/b.pdf"
        ends = fetch_all(tmp_path, [closed, whole])
    assert (ends[closed].reason, ends[whole].end, web.asked) == ("bad_response", "fetched", [])
    assert "certificate required" in ends[closed].detail


def test_a_list_behind_broken_tls_may_be_asked_for_again(tls: ssl.SSLContext):
    with serving({"/urls.txt": unencrypted}, tls) as web, pytest.raises(TransientError, match="bad_response.*SSL"):
        fetch_list(f"{web.url}/urls.txt", max_bytes=1000, time_limit_s=5)
