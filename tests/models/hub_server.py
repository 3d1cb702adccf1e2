"""A model hub on loopback that speaks the protocol of the real one, as far as fetching needs it."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

_INFO = re.compile(r"/api/(?:models|datasets)/(?P<id>[^/]+/[^/]+)/revision/(?P<revision>.+)")
_TREE = re.compile(r"/api/(?:models|datasets)/(?P<id>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)/?")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_FILE = re.compile(r"/(?:datasets/)?(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")


class Hub:
    """Repositories with commits; a branch names the one that was pushed last."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        self.branches: dict[tuple[str, str], str] = {}
        self.sent: Counter[str] = Counter()
        self.bytes_sent: Counter[str] = Counter()
        self.gated: dict[str, str] = {}
        """Repository -> the token without which its files are not given."""
        self.failures: list[int] = []
        """Statuses of the next answers that would have been a part of a file."""
        self.most_files: int | None = None
        """Parts of no more files than these are given; who asks for another waits, and ``stuck`` is set."""
        self.stuck, self.go_on = threading.Event(), threading.Event()

    def push(self, repository: str, files: dict[str, bytes], branch: str = "main", commit: str = "") -> str:
        """A new commit with these files, at the head of the branch."""
        commit = commit or hashlib.sha1(repr((repository, sorted(files.items()))).encode()).hexdigest()
        self.files[repository, commit] = files
        self.branches[repository, branch] = commit
        return commit

    def answer(self, path: str, token: str = "") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        for pattern, page in ((_INFO, self._info), (_TREE, self._tree), (_FILE, self._file)):
            if found := pattern.fullmatch(path):
                repository, revision = found["id"], found["revision"]
                commit = self.branches.get((repository, revision), revision)
                files = self.files.get((repository, commit))
                if files is None:
                    return 404, {"X-Error-Code": "RevisionNotFound"}, b""
                if pattern is _FILE and self.gated.get(repository, token) != token:
                    return 401, {"X-Error-Code": "GatedRepo"}, b""
                return page(repository, commit, files, found.groupdict().get("name", ""))
        return 404, {}, b""

    def _info(self, repository: str, commit: str, files: dict[str, bytes], _: str) -> tuple[int, dict, bytes]:
        siblings = [{"rfilename": name} for name in files]
        return 200, {}, json.dumps({"id": repository, "sha": commit, "siblings": siblings}).encode()

    def _tree(self, _: str, commit: str, files: dict[str, bytes], __: str) -> tuple[int, dict, bytes]:
        rows = [{"type": "file", "path": n, "size": len(b), "oid": _oid(b)} for n, b in files.items()]
        return 200, {}, json.dumps(rows).encode()

    def _file(self, _: str, commit: str, files: dict[str, bytes], name: str) -> tuple[int, dict, bytes]:
        if name not in files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        return 200, {"X-Repo-Commit": commit, "ETag": f'"{_oid(files[name])}"'}, files[name]

    def clear(self) -> None:
        """Forget all repositories, and what was sent."""
        for kept in (self.files, self.branches, self.sent, self.bytes_sent, self.gated, self.failures):
            kept.clear()
        self.most_files = None
        self.stuck.clear()
        self.go_on.clear()

    def withholds(self, path: str) -> bool:
        """Whether a file is one too many; returns when the test goes on."""
        if self.most_files is None or path in self.bytes_sent or len(self.bytes_sent) < self.most_files:
            return False
        self.stuck.set()
        self.go_on.wait(60)
        return True

    def part(self, headers: dict[str, str], body: bytes, first: int, last: int) -> tuple[int, dict[str, str], bytes]:
        """The bytes of a range, or the next failure."""
        if self.failures:
            status = self.failures.pop(0)
            return status, {"X-Error-Code": "EntryNotFound"} if status == 404 else {}, b""
        return 206, headers | {"Content-Range": f"bytes {first}-{last}/{len(body)}"}, body[first : last + 1]


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub, until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET(with_body=False)

        def do_GET(self, with_body: bool = True) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, body = hub.answer(path, self.headers.get("Authorization", "").removeprefix("Bearer "))
            if (wanted := _RANGE.fullmatch(self.headers.get("Range", ""))) and status == 200:
                if hub.withholds(path):
                    self.close_connection = True
                    return
                status, headers, body = hub.part(headers, body, int(wanted[1]), int(wanted[2]))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)
                hub.sent[path.rpartition("/")[2]] += 1
                if status == 206:
                    hub.bytes_sent[path] += len(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def asked_here(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client in this process ask ``hub``; another process reads HF_ENDPOINT when it begins."""
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + template)
