"""One language model for all end-to-end tests: an answer that one of them has waited for is told to the others at once.

The answers are those of the real server, which starts when something is asked that nobody has asked before.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import httpx

from pipeline_tasks.models.fetch import weights_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.serve_llm import serve
from pipeline_tasks.models.use import LLM

PATIENCE_S = 600.0


class Answers:
    """What the model has answered, in a folder that all test processes share."""

    def __init__(self, folder: Path, base_url: Callable[[], str]) -> None:
        self._folder, self._base_url = folder, base_url
        folder.mkdir(parents=True, exist_ok=True)

    def of(self, path: str, body: bytes) -> bytes:
        """The answer to ``body``; who asks what another is asking waits for that one's answer."""
        key = self._folder / hashlib.sha256(path.encode() + b"\0" + body).hexdigest()
        with key.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not key.is_file():
                url = self._base_url().removesuffix("/v1") + path
                answer = httpx.post(url, content=body, headers={"Content-Type": "application/json"}, timeout=PATIENCE_S)
                key.with_suffix(".part").write_bytes(answer.raise_for_status().content)
                key.with_suffix(".part").replace(key)
            return key.read_bytes()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, answers: Answers, *args: object) -> None:
        self._answers = answers
        super().__init__(*args)

    def do_POST(self) -> None:
        body = self._answers.of(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(httpx.codes.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def shared_llm(folder: Path, weights: Path) -> Iterator[str]:
    """Base URL of the model, whose answers are kept in ``folder``."""
    with ExitStack() as stack:
        started, lock = [], Lock()

        def base_url() -> str:
            with lock:
                if not started:
                    started.append(stack.enter_context(serve(weights_of(get(LLM), weights), alias=LLM)))
                return started[0]

        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, Answers(folder, base_url)))
        stack.callback(server.server_close)
        Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        yield f"http://127.0.0.1:{server.server_port}/v1"
