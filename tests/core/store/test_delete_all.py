"""Deleting many keys of a bucket at once."""

from __future__ import annotations

import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline_tasks.core.errors import InputError
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
    """Deletes all but one of what it is asked to."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        failed = "<Error><Key>store/b</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        body = f'<?xml version="1.0"?><DeleteResult>{failed}</DeleteResult>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_one_of_many_that_is_not_deleted_is_told(s3, monkeypatch, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(InputError, match="these keys may not do that"):
            S3Store("s3://bucket/store", tmp_path, CACHE_BYTES).delete_all(["a", "b"])
        server.shutdown()
