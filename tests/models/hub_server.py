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

_INFO = re.compile(r"/api/models/(?P<id>[^/]+/[^/]+)/revision/(?P<revision>.+)")
_TREE = re.compile(r"/api/models/(?P<id>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)/?")
_FILE = re.compile(r"/(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")


class Hub:
    """Repositories with commits; a branch names the one that was pushed last."""

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[tuple[str, str], dict[str, bytes]] = {}
        self.branches: dict[tuple[str, str], str] = {}
        self.sent: Counter[str] = Counter()

    def push(self, repository: str, files: dict[str, bytes], branch: str = "main") -> str:
        """A new commit with these files, at the head of the branch."""
        commit = hashlib.sha1(repr((repository, sorted(files.items()))).encode()).hexdigest()
        self.files[repository, commit] = files
        self.branches[repository, branch] = commit
        return commit

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        for pattern, page in ((_INFO, self._info), (_TREE, self._tree), (_FILE, self._file)):
            if found := pattern.fullmatch(path):
                repository, revision = found["id"], found["revision"]
                commit = self.branches.get((repository, revision), revision)
                files = self.files.get((repository, commit))
                if files is None:
                    return 404, {"X-Error-Code": "RevisionNotFound"}, b""
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
            status, headers, body = hub.answer(path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)
                hub.sent[path.rpartition("/")[2]] += 1

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
