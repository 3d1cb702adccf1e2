"""A stand-in for an OpenAI-compatible endpoint, on loopback: it bills what it answers, and fails on demand.

No real endpoint fails on demand or shows its bill. What goes over the wire is real: statuses, headers, silent and cut
connections. Which request meets which fault depends on its key and a seed alone, never on the order of arrival.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSALS = {"http_400": 400, "http_413": 413}
PASSING = ("http_429", "http_500", "hang", "cut", "schema")
FAULTS = (*REFUSALS, *PASSING)
PRICE_IN, PRICE_OUT = 2.0, 8.0
"""Dollars per million tokens."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with Python's 5, connections that a client opens all at once are reset

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed resets its connections: no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class FaultyLLM:
    """Serves ``/completions`` and ``/chat/completions`` while the block runs.

    A request that is refused (400, 413) is refused whenever it comes. Every other fault is drawn anew for each try. A
    429 opens a window in which every request gets 429, with the rest of the window as Retry-After.

    Args:
        share: of requests that meet a fault.
        faults: kinds of faults, equally often; of :data:`FAULTS`.
        retry_after_s: length of a window.
        delay_s: time that an answer takes.
        once: whether a key that was billed is answered again without another bill, as idempotency keys promise.

    Attributes:
        asked: request key -> tries.
        met: kind of fault -> how often it was met.
        billed: request key -> how often it was billed.
        usd: the bill.
        most_at_once: requests open at the same time, at most.
        windows: how many 429 windows there were.
        prompts: prompts in the order in which they came.
    """

    def __init__(
        self,
        share: float = 0.2,
        faults: tuple[str, ...] = FAULTS,
        *,
        retry_after_s: float = 30.0,
        delay_s: float = 0.0,
        once: bool = True,
        seed: int = 0,
    ) -> None:
        self.share, self.faults, self.retry_after_s, self.delay_s = share, faults, retry_after_s, delay_s
        self.once, self.seed = once, seed
        self.asked: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()
        self.prompts: list[str] = []
        self.usd, self.windows, self.most_at_once = 0.0, 0, 0
        self._open, self._closed_until = 0, 0.0
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> FaultyLLM:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def draw(self, key: str, attempt: int) -> str:
        """The fault that this try of a request meets; empty for none. Where not everything is refused, no check is."""
        from pipeline_tasks.synthesis.llm.client import CHECK

        kind = self._drawn(key, 0)
        if self.share < 1 and key.startswith(CHECK) and kind in REFUSALS:
            return ""
        if kind in REFUSALS or attempt == 0:
            return kind
        kind = self._drawn(key, attempt)
        return "" if kind in REFUSALS else kind

    def _drawn(self, key: str, attempt: int) -> str:
        from pipeline_tasks.core.ids import unit_hash

        drawn = unit_hash(self.seed, key, attempt)
        return self.faults[int(drawn / self.share * len(self.faults))] if drawn < self.share else ""

    def begin(self, key: str, prompt: str) -> tuple[str, float]:
        """Count a try; its fault, and the seconds until the window is over."""
        with self._lock:
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
            attempt, now = self.asked[key], time.monotonic()
            self.asked[key] += 1
            self.prompts.append(prompt)
            kind = "http_429" if now < self._closed_until else self.draw(key, attempt)
            if kind == "http_429" and now >= self._closed_until:
                self.windows += 1
                self._closed_until = now + self.retry_after_s
            if kind:
                self.met[kind] += 1
            return kind, max(0.0, self._closed_until - now)

    def end(self) -> None:
        """A try is about to be answered, or never."""
        with self._lock:
            self._open -= 1

    def bill(self, key: str, usage: dict[str, int]) -> None:
        """Put an answer on the bill, unless its key is there and answers are sold once."""
        with self._lock:
            if not (self.once and self.billed[key]):
                self.billed[key] += 1
                self.usd += (usage["prompt_tokens"] * PRICE_IN + usage["completion_tokens"] * PRICE_OUT) / 1e6

    def silent(self) -> None:
        """Wait as long as the server runs."""
        self._ended.wait()

    @staticmethod
    def answer(path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The prompt, and an answer in the words of its last passage."""
        prompt = body["messages"][-1]["content"] if path.endswith("/chat/completions") else body["prompt"]
        text = " ".join(prompt.rpartition("Passage: ")[2].split("\n")[0].split()[:9])
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        choice |= {"message": {"content": text}} if path.endswith("/chat/completions") else {"text": text}
        usage = {"prompt_tokens": max(1, len(prompt) // 4), "completion_tokens": max(1, len(text) // 4)}
        return prompt, {"model": body["model"], "created": 1_700_000_000, "choices": [choice], "usage": usage}


def _handler(llm: FaultyLLM) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_POST(self) -> None:  # noqa: N802
            length = int(self.headers["Content-Length"])
            if len(data := self.rfile.read(length)) < length:  # the client was killed while it sent
                self.close_connection = True
                return
            body = json.loads(data)
            prompt, answer = llm.answer(self.path, body)
            key = self.headers.get("Idempotency-Key") or prompt
            kind, closed_s = llm.begin(key, prompt)
            with suppress(BrokenPipeError, ConnectionResetError):
                self._act(kind, closed_s, key, answer)

        def _act(self, kind: str, closed_s: float, key: str, answer: dict[str, Any]) -> None:
            time.sleep(llm.delay_s if kind in ("", "cut") else 0)
            llm.end()
            if kind in REFUSALS:
                self._send(REFUSALS[kind], {"error": {"message": f"this prompt is refused ({kind})", "code": None}})
            elif kind == "http_429":
                after = math.ceil(closed_s) if llm.retry_after_s >= 1 else f"{closed_s:.3f}"
                self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": str(after)})
            elif kind == "http_500":
                self._send(500, {"error": {"message": "broken"}})
            elif kind == "hang":
                self.close_connection = True
                llm.silent()
            elif kind == "schema":
                self._send(200, {"result": "an answer of another API"})
            else:
                llm.bill(key, answer["usage"])
                self._send(200, answer, cut=kind == "cut")

        def _send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None, *, cut: bool = False):
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            if not cut or len(data) % 2:  # without a length, nothing but the body itself says that half is missing
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection |= cut

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
