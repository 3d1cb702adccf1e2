"""The ask page and its API on this machine's loopback.

A request has to name this server as its host, so that no other name which leads here can be used to read answers, and
one that the browser marks as another site's is refused.
"""

from __future__ import annotations

import json
import logging
import mimetypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.ask.service import SentJudgement, Service
from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.web import HEADERS, STATIC

log = logging.getLogger(__name__)
OWN = Path(__file__).parent / "static"
HOST = "127.0.0.1"
_MOST_BYTES = 1 << 16
_PATIENCE_S = 30


@contextmanager
def serving(
    corpus: Corpus, reader: Reader, names: Sequence[str], save: Path | None, port: int = 0
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Serve inside the context; yields the page's address, and a call that returns when serving ends.

    Args:
        corpus: what is asked.
        reader: its lineage.
        names: systems to open at once and to offer first.
        save: file of judged questions; None keeps no judgement.
        port: 0 for any that is free.

    Raises:
        InputError: a system cannot be opened, or the port cannot be had.
    """
    service = Service(corpus, reader, names, save)
    service.open(names)
    try:
        server = ThreadingHTTPServer((HOST, port), partial(Handler, service, _files()))
    except OSError as error:
        raise InputError(f"port {port} on {HOST} cannot be had ({error}); choose another with --port") from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="ask", kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/", thread.join
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _files() -> dict[str, tuple[bytes, str]]:
    """Path -> bytes and type of everything that is served; what is not here does not exist."""
    found = {f"/static/{file.name}": file for folder in (STATIC, OWN) for file in folder.iterdir()}
    found["/"] = OWN / "index.html"
    return {path: (file.read_bytes(), _type(file)) for path, file in found.items()}


def _type(file: Path) -> str:
    kind = {".js": "text/javascript", ".svg": "image/svg+xml"}.get(file.suffix) or mimetypes.guess_type(file.name)[0]
    return f"{kind or 'application/octet-stream'}; charset=utf-8"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S

    def __init__(self, service: Service, files: dict[str, tuple[bytes, str]], *args: Any) -> None:
        self._service, self._files = service, files
        super().__init__(*args)

    def do_GET(self) -> None:  # noqa: N802
        """The page, its files, and questions of its API."""
        if self._is_foreign():
            return
        parts = urlsplit(self.path)
        if parts.path in self._files:
            return self._say(200, *self._files[parts.path])
        calls: dict[str, Callable[[dict[str, list[str]]], Any]] = {
            "/api/about": lambda given: self._service.about(),
            "/api/ask": lambda given: self._service.ask(
                _one(given, "question"), _one(given, "intent"), given.get("system", []), _number(given, "top", 5)
            ),
            "/api/queries": lambda given: self._service.queries(_one(given, "contains")[:200]),
            "/api/trace": lambda given: self._service.trace(_one(given, "id")[:200]),
        }
        if parts.path not in calls:
            return self._tell(404, {"detail": "there is no such page"})
        self._answer(lambda: calls[parts.path](parse_qs(parts.query, max_num_fields=20)))

    def do_POST(self) -> None:  # noqa: N802
        """A judgement."""
        length = self.headers.get("Content-Length") or ""
        if not length.isdecimal() or len(length) > 9 or not 0 < int(length) <= _MOST_BYTES:
            self.close_connection = True
            return self._tell(413, {"detail": f"send 1 to {_MOST_BYTES} bytes"})
        body = self.rfile.read(int(length))
        if self._is_foreign():
            return
        if self.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
            return self._tell(415, {"detail": "send application/json"})
        if urlsplit(self.path).path != "/api/judgements":
            return self._tell(404, {"detail": "there is no such page"})
        self._answer(lambda: self._service.judge(SentJudgement.model_validate_json(body)))

    def _is_foreign(self) -> bool:
        """Whether another site's page, or another name for this address, asks; it is told so.

        Any page may lead a person to this one, so ``/`` alone is opened from anywhere.
        """
        port = self.server.server_port  # type: ignore[attr-defined]
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")} | ({HOST, "localhost"} if port == 80 else set())
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (
            self.headers.get("Host", "").lower() in hosts
            and (origin is None or origin.lower().removeprefix("http://") in hosts)
            and (site in ("same-origin", "none") or (self.command, self.path) == ("GET", "/"))
        ):
            return False
        self.close_connection = True
        self._tell(403, {"detail": "this request comes from another site's page"})
        return True

    def _answer(self, call: Callable[[], Any]) -> None:
        try:
            self._tell(200, call())
        except (ValidationError, ValueError) as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            self._tell(400, {"detail": said})
        except FoundryError as error:
            self._tell(400 if isinstance(error, InputError) else 503, {"detail": str(error)})
        except Exception:
            log.exception("an answer failed")
            self._tell(500, {"detail": "this is a bug; the terminal that serves the page tells more"})

    def _tell(self, status: int, body: Any) -> None:
        data = json.dumps(body, ensure_ascii=False, default=str).encode()
        self._say(status, data, "application/json; charset=utf-8")

    def _say(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        with suppress(ConnectionError):  # a visitor who did not wait
            self.end_headers()
            self.wfile.write(data)

    def end_headers(self) -> None:
        """Every answer, refusals included, keeps foreign code out."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Not what runs it."""
        return "foundry"

    def log_message(self, template: str, *values: object) -> None:
        """Log requests at debug level in place of standard error."""
        log.debug(template, *values)


def _one(given: dict[str, list[str]], name: str) -> str:
    return given.get(name, [""])[0]


def _number(given: dict[str, list[str]], name: str, default: int) -> int:
    text = _one(given, name)
    if text and not (text.isdecimal() and len(text) < 10):
        raise InputError(f"{name}={text[:40]!r} is no number")
    return int(text) if text else default
