"""A stand-in for the batch API of an OpenAI-compatible endpoint, on loopback: no real one ends within a test.

What goes over the wire is the protocol: files, batches, their statuses, lines of answers and of errors.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TOKENS = {"prompt_tokens": 100, "completion_tokens": 10}


class BatchEndpoint:
    """Serves ``/files`` and ``/batches`` while the block runs; a batch stays in progress until :meth:`end`.

    Attributes:
        files: id -> lines.
        batches: id -> batch.
        billed: custom id -> how often it was answered.
        asked: custom id -> in how many batches it was.
        alone: requests that were not in a batch.
        cut: replies to the beginning of a batch that are cut off after it was begun.
        full: no further file is accepted.
        room: requests that may be on their way together; a batch with more fails.
        reason: for which answers in batches ended.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], str]) -> None:
        self.answer, self.cut, self.full, self.room = answer, 0, False, 1_000
        self.reason = "stop"
        self.files: dict[str, list[dict[str, Any]]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.billed: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.alone: list[dict[str, Any]] = []
        self._numbers = itertools.count()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> BatchEndpoint:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def end(self, status: str = "completed", failing: Callable[[dict[str, Any]], str] = lambda body: "") -> None:
        """Every open batch ends; requests for which ``failing`` gives a code are in its file of errors."""
        for batch in (batch for batch in self.batches.values() if batch["status"] == "in_progress"):
            answers, errors = [], []
            for line in self.files[batch["input_file_id"]] if status != "failed" else ():
                if code := failing(line["body"]):
                    errors.append({"custom_id": line["custom_id"], "response": None, "error": {"code": code}})
                    continue
                self.billed[line["custom_id"]] += 1
                answers.append({
                    "custom_id": line["custom_id"], "error": None,
                    "response": {"status_code": 200, "body": chat(self.answer(line["body"]), self.reason)},
                })  # fmt: skip
            named = {"output_file_id": self.keep(answers), "error_file_id": self.keep(errors)}
            errors_of = {"data": [{"message": "line 1 is no request"}]} if status == "failed" else None
            batch |= named | {"status": status, "errors": errors_of}

    def keep(self, lines: list[dict[str, Any]]) -> str | None:
        """The id of a new file; no lines are none."""
        if not lines:
            return None
        name = f"file-{next(self._numbers)}"
        self.files[name] = lines
        return name

    def page(self, after: str = "", limit: int = 20) -> dict[str, Any]:
        """The ``limit`` batches that were begun before ``after``, the last one first."""
        each = [*reversed(self.batches.values())]
        older = each[[batch["id"] for batch in each].index(after) + 1 :] if after else each
        return {"object": "list", "data": older[:limit], "has_more": len(older) > limit}

    def begin(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new batch, which is answered by nobody yet."""
        name = f"batch-{len(self.batches)}"
        open_files = [one["input_file_id"] for one in self.batches.values() if one["status"] == "in_progress"]
        if sum(len(self.files[file]) for file in (*open_files, body["input_file_id"])) > self.room:
            errors = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached for m"}]}
            self.batches[name] = {"id": name, "status": "failed", "errors": errors} | body
            return self.batches[name] | {"status": "validating", "errors": None}
        self.asked.update(line["custom_id"] for line in self.files[body["input_file_id"]])
        self.batches[name] = {"id": name, "status": "in_progress"} | body
        return self.batches[name]


def chat(text: str, reason: str = "stop") -> dict[str, Any]:
    """The body of an answer."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return {"choices": [choice], "usage": TOKENS, "model": "m", "created": 1}


def _handler(there: BatchEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/files" and there.full:
                self.send({"error": {"message": "no room for files"}}, 400)
            elif self.path == "/v1/files":
                self.send({"id": there.keep([json.loads(line) for line in self.uploaded(data).splitlines()])})
            elif self.path == "/v1/batches":
                begun = there.begin(json.loads(data))
                if there.cut:
                    there.cut -= 1
                    self.close_connection = True
                else:
                    self.send(begun)
            else:
                there.alone.append(json.loads(data))
                self.send(chat(there.answer(there.alone[-1])))

        def do_GET(self) -> None:
            path = urlsplit(self.path).path.removeprefix("/v1/")
            if path == "batches":
                asked = dict(parse_qsl(urlsplit(self.path).query))
                self.send(there.page(asked.get("after", ""), int(asked.get("limit", 20))))
            elif path.startswith("batches/"):
                self.send(there.batches[path.partition("/")[2]])
            elif path == "models":
                self.send({"data": []})
            else:
                lines = there.files.get(path.split("/")[1])
                if lines is None:
                    self.send_error(404)
                else:
                    self.send_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

        def do_DELETE(self) -> None:
            if there.files.pop(self.path.rpartition("/")[2], None) is None:
                self.send_error(404)
            else:
                self.send({"deleted": True})

        def uploaded(self, data: bytes) -> bytes:
            kind = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            parts = BytesParser().parsebytes(kind + data).get_payload()
            assert isinstance(parts, list)
            (file,) = (part.get_payload(decode=True) for part in parts if part.get_filename())
            return file

        def send(self, found: dict[str, Any], status: int = 200) -> None:
            self.send_bytes(json.dumps(found).encode(), status)

        def send_bytes(self, data: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
