"""A socket that leads to the engine's and lets only requests of steps through: see ``policy.py``.

``ENGINE`` and ``LISTEN`` are the two sockets; ``IMAGES``, ``NETWORK``, ``VOLUMES`` and ``SOURCES`` (joined by commas)
are what containers of steps may be. Refusals are answered with 403 and a message, and logged.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from policy import Policy, RefusedError, route

MOST_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16
PATIENCE_S = 120
log = logging.getLogger("dockerproxy")


class Engine(HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    policy: Policy
    engine: str

    def _do(self) -> None:
        body = b""
        try:
            if self.headers.get("Transfer-Encoding") or self.headers.get("Upgrade"):
                raise RefusedError("send a body of a known length, and no other protocol")
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= MOST_BYTES:
                raise RefusedError(f"a body of {length} bytes is too long")
            body = self.rfile.read(length)
            self._pass_on(body)
        except RefusedError as refusal:
            log.warning("refused: %s", refusal)
            self._say(403, f"refused by the proxy: {refusal}")
        except ValueError as error:
            self._say(400, f"not understood: {error}")
        except (BrokenPipeError, ConnectionResetError):  # one of the two has left, and there is nobody to tell
            self.close_connection = True
        except OSError as error:
            log.warning("the engine does not answer: %s", error)
            self._say(502, f"the engine does not answer: {error}")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = _do  # noqa: N815

    def _pass_on(self, body: bytes) -> None:
        address = urlsplit(self.path)
        pattern, name, allowed = route(self.command, address.path)
        asked = parse_qsl(address.query, keep_blank_values=True)
        if unknown := [key for key, _ in asked if key not in allowed]:
            raise RefusedError(f"{pattern}?{unknown[0]} is nothing that steps need")
        if name:
            self._must_be_ours(address.path, name)
        sent = json.dumps(self.policy.create(json.loads(body))).encode() if pattern.endswith("/create") else b""
        target = f"{address.path}?{urlencode(asked)}" if asked else address.path
        with self._ask_engine(self.command, target, sent) as answer:
            self._relay(answer)

    def _must_be_ours(self, path: str, name: str) -> None:
        """Let nobody look at, stop or remove what is no container of a step; the engine tells of what is not there."""
        prefix = path.partition("/containers/")[0]
        with self._ask_engine("GET", f"{prefix}/containers/{name}/json") as answer:
            container = json.loads(answer.read())
        if answer.status == 200 and not self.policy.is_ours(container):
            raise RefusedError(f"{name} is no container of a step")

    @contextmanager
    def _ask_engine(self, method: str, target: str, body: bytes = b"") -> Iterator[HTTPResponse]:
        with closing(Engine(self.engine)) as engine:
            engine.request(method, target, body or None, {"Content-Type": "application/json"} if body else {})
            yield engine.getresponse()

    def _relay(self, answer: HTTPResponse) -> None:
        """The engine's answer, block by block; its end is the end of the connection."""
        self.send_response(answer.status)
        for name in ("Content-Type", "Api-Version", "Docker-Experimental", "Ostype"):
            if value := answer.headers.get(name):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while block := answer.read(BLOCK_BYTES):
            self.wfile.write(block)

    def _say(self, status: int, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """A socket's visitor has no address."""
        return "-"

    def log_message(self, form: str, *values: Any) -> None:
        """Only refusals are logged."""


class Server(ThreadingUnixStreamServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    """Listen until ended."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    lists = ("IMAGES", "VOLUMES", "SOURCES")
    images, volumes, sources = (frozenset(filter(None, os.environ.get(name, "").split(","))) for name in lists)
    Handler.policy = Policy(images, os.environ["NETWORK"], volumes, sources)
    Handler.engine = os.environ["ENGINE"]
    listen = Path(os.environ["LISTEN"])
    listen.unlink(missing_ok=True)
    os.umask(0o177)
    with Server(str(listen), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
