"""A fake server of objects, behind the real protocol, for faults that a real one shows too rarely to wait for."""

from __future__ import annotations

import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline_tasks.core.store import patience
from pipeline_tasks.core.store.bucket import Bucket

STARTED = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"


class FakeS3(BaseHTTPRequestHandler):
    """One object in memory; ``faults`` are told what is asked for and may answer in its place."""

    protocol_version = "HTTP/1.1"
    faults: Callable[[FakeS3, str], bool]
    asked: Counter[str]
    objects: dict[str, tuple[bytes, str]]

    def body(self) -> bytes:
        """What was sent."""
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return found

    def answer(self, status: int, body: bytes = b"", cut: int = 0, **headers: str) -> None:
        """With ``cut``, the connection breaks after so many bytes of the body."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: cut or None])
        self.close_connection = bool(cut)

    def refuse(self, status: int, code: str) -> None:
        """An error as S3 tells it."""
        self.answer(status, f"<Error><Code>{code}</Code><Message>of a test</Message></Error>".encode())

    def hang_up(self) -> None:
        """Answer nothing."""
        self.close_connection = True
        self.connection.close()

    def do(self) -> None:
        """Any request."""
        data = self.body()
        what = self.command
        if what == "POST":
            what = "start" if "uploads" in self.path else "complete"
        elif "uploadId" in self.path:
            what = {"PUT": "piece", "DELETE": "abandon"}[what]
        self.asked[what] += 1
        kept, writer = self.objects.get(self.path.partition("?")[0], (b"", ""))
        if what in ("PUT", "complete"):
            self.objects[self.path.partition("?")[0]] = (data, self.headers.get("x-amz-meta-writer", ""))
        if self.faults(self, what):
            return
        if what in ("GET", "HEAD"):
            times = {"ETag": '"e"', "Last_Modified": "Tue, 24 Nov 2026 10:00:00 GMT", "x_amz_meta_writer": writer}
            self.answer(200, kept, **times)
        else:
            bodies = {
                "start": STARTED,
                "complete": b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>',
            }
            self.answer(200, bodies.get(what, b""), ETag='"e"')

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do

    def log_message(self, *_: object) -> None:
        """Quiet."""


def heeds_conditions(server: FakeS3, names: Sequence[str] = ("If-None-Match", "If-Match")) -> bool:
    """Refuse each PUT but the first that has one of these; whether this one was."""
    refused = server.asked["PUT"] > 1 and any(name in server.headers for name in names)
    if refused:
        server.refuse(412, "PreconditionFailed")
    return refused


@contextmanager
def serving(handler: type[FakeS3], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Where it listens, until the end of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda *_: None
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def fake_servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Bucket, type[FakeS3]]]]:
    """Gives what starts one with these faults, which the environment then leads to; a bucket on it, and its class."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE_S", 0.01)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with ExitStack() as opened:

        def start(faults: Callable[[FakeS3, str], bool], context: ssl.SSLContext | None = None) -> tuple[Bucket, type]:
            handler = type("Faulty", (FakeS3,), {"faults": staticmethod(faults), "asked": Counter(), "objects": {}})
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", opened.enter_context(serving(handler, context)))
            return Bucket("s3://bucket/store"), handler

        yield start
