"""A web server on loopback whose pages are functions of the request: what a crawler meets, for real."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Page = Callable[[BaseHTTPRequestHandler, int], None]
"""Writes an answer, given the handler and how often the path was asked for before."""


class Web:
    """The pages by path (a query may be left out), how often each path was asked for, and with which headers."""

    def __init__(self, pages: dict[str, Page], url: str) -> None:
        self.pages, self.url, self.hits = pages, url, Counter[str]()
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def host(self) -> str:
        """As it stands in URLs."""
        return self.url.partition("://")[2]


def answer(status: int, body: bytes = b"", content_type: str = "application/pdf", **headers: str) -> Page:
    """The same answer every time."""

    def page(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return page


def document(body: bytes, sent: Counter[str] | None = None) -> Page:
    """A document with an ETag, which is not sent again to who knows it; ``sent`` counts those that are."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'

    def page(handler: BaseHTTPRequestHandler, before: int) -> None:
        if handler.headers.get("If-None-Match") == etag:
            answer(304, ETag=etag)(handler, before)
            return
        if sent is not None:
            sent[handler.path] += 1
        answer(200, body, ETag=etag)(handler, before)

    return page


@contextmanager
def serving(pages: dict[str, Page], context: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Serve ``pages`` while the block runs, over TLS with a ``context``; any other path is a 404."""

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            try:
                super().handle()
            except ssl.SSLError:  # closed with bytes unread, the connection would be reset and the alert could be lost
                with suppress(OSError):
                    while socket.socket.recv(self.connection, 1 << 16):
                        pass

        def do_GET(self) -> None:  # noqa: N802
            before = web.hits[self.path]
            web.hits[self.path] += 1
            web.asked.append((self.path, dict(self.headers)))
            page = web.pages.get(self.path) or web.pages.get(self.path.partition("?")[0], answer(404))
            with suppress(BrokenPipeError, ConnectionResetError):
                page(self, before)

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    web = Web(dict(pages), f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
