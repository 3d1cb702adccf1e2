"""An embeddings endpoint on loopback: it counts what it sells, and misbehaves when told to."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIM = 1536


class Endpoint:
    """What was asked of a running endpoint.

    Attributes:
        url: its address with the version path.
        sold: text -> how often a vector of it was given.
        keys: the Authorization headers seen.
        faults: answered before anything else, one a request: (status, headers, body).
        mend: changes a right answer before it is sent.
        hold: requests after so many wait until it is set free.
    """

    def __init__(self) -> None:
        self.url = ""
        self.sold: Counter[str] = Counter()
        self.requests = 0
        self.keys: list[str | None] = []
        self.faults: list[tuple[int, dict[str, str], bytes]] = []
        self.mend = lambda answer: answer
        self.hold_after: int | None = None
        self.released = threading.Event()
        self.holding = threading.Event()

    def vector(self, text: str) -> list[float]:
        """Points by the text's length and first letter; never zero."""
        return [float(len(text)), float(ord(text[0]))] + [0.5] * (DIM - 2)

    def answer(self, body: dict) -> dict:
        """What the API says to ``body``; rows in reverse, as an endpoint may."""
        rows = [{"index": i, "embedding": self.vector(text)} for i, text in enumerate(body["input"])]
        tokens = sum(len(text.split()) for text in body["input"])
        return {"data": rows[::-1], "usage": {"prompt_tokens": tokens}, "model": body["model"]}


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests += 1
            endpoint.keys.append(self.headers.get("Authorization"))
            if endpoint.hold_after is not None and endpoint.requests > endpoint.hold_after:
                endpoint.holding.set()
                endpoint.released.wait(60)
            if endpoint.faults:
                self.send(*endpoint.faults.pop(0))
                return
            endpoint.sold.update(body["input"])
            self.send(200, {}, json.dumps(endpoint.mend(endpoint.answer(body))).encode())

        def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    return Handler


@contextmanager
def serving() -> Iterator[Endpoint]:
    """A running endpoint."""
    endpoint = Endpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(endpoint))
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        server.server_close()
