"""Deleting many keys of a bucket at once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.store import patience
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES


def test_many_are_deleted_in_few_requests(s3):
    keys = [f"many/{uuid.uuid4().hex}" for _ in range(1_001)]
    for key in keys[:5]:
        s3.create(key, b"x")
    requests: list[str] = []
    s3.bucket.client.meta.events.register("before-call.s3", lambda model, **_: requests.append(model.name))
    s3.delete_all(keys)
    assert requests == ["DeleteObjects"] * 2 and not list(s3.keys("many"))


class Refusing(BaseHTTPRequestHandler):
    """Deletes all but one of what it is asked to, for a reason each time; then all."""

    def do_POST(self) -> None:
        server = cast(Any, self.server)
        server.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        code = server.codes.pop(0) if server.codes else ""
        failed = f"<Error><Key>store/b</Key><Code>{code}</Code><Message>no</Message></Error>" if code else ""
        body = f'<?xml version="1.0"?><DeleteResult>{failed}</DeleteResult>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def refusing_server(monkeypatch, *codes: str) -> Iterator[list[str]]:
    """What is asked of a server that refuses for the reasons ``codes``, one after another."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.asked, server.codes = [], list(codes)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        yield server.asked
        server.shutdown()


def test_one_of_many_that_is_not_deleted_is_told(s3, monkeypatch, tmp_path):
    with refusing_server(monkeypatch, "AccessDenied"), pytest.raises(InputError, match="these keys may not do that"):
        S3Store("s3://bucket/store", tmp_path, CACHE_BYTES).delete_all(["a", "b"])


def test_those_that_a_server_is_too_busy_for_are_asked_for_again(s3, monkeypatch, tmp_path):
    monkeypatch.setattr(patience, "wait_s", lambda attempts: 0.0)
    with refusing_server(monkeypatch, "SlowDown", "InternalError") as asked:
        S3Store("s3://bucket/store", tmp_path, CACHE_BYTES).delete_all(["a", "b"])
    assert [body.count("<Key>") for body in asked] == [2, 1, 1] and "store/b" in asked[-1]
    with refusing_server(monkeypatch, *["SlowDown"] * 20) as asked, pytest.raises(TransientError, match="SlowDown"):
        S3Store("s3://bucket/store", tmp_path, CACHE_BYTES).delete_all(["a", "b"])
    assert len(asked) == patience.ATTEMPTS
