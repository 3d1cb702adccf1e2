"""``fake_kubernetes_api``: five calls of the Kubernetes API over real HTTP on loopback. No pod runs; a test says how.

It keeps pods as they are posted, refuses a name that is taken (409) or absent (404), and answers logs with times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml


class Cluster:
    """The pods, and what a test makes of them."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.calls: list[str] = []
        self.failing = 0
        self.refusing = 0
        self.created = threading.Event()

    def log(self, name: str, *lines: str) -> None:
        told = self.logs.setdefault(name, [])
        told += [(f"2026-11-21T10:00:{len(told) + n:02d}.000000000Z", line) for n, line in enumerate(lines)]

    def state(self, name: str, phase: str, state: dict[str, Any] | None = None, **status: Any) -> None:
        """The container ``step`` is in ``state``; those beside it run."""
        states = dict.fromkeys(self.containers(name), {"running": {"startedAt": "2026-11-21T10:00:00Z"}})
        common = {"image": "i", "imageID": "", "ready": False, "restartCount": 0}
        statuses = [common | {"name": one, "state": found} for one, found in (states | {"step": state}).items()]
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": statuses if state else []} | status

    def running(self, name: str) -> None:
        self.state(name, "Running", {"running": {"startedAt": "2026-11-21T10:00:00Z"}})

    def terminated(self, name: str, code: int, reason: str = "Error", message: str = "", ago_s: float = 0) -> None:
        finished = datetime.now(UTC) - timedelta(seconds=ago_s)
        over = {"exitCode": code, "reason": reason, "message": message, "finishedAt": finished.isoformat()}
        phase = "Running" if len(self.containers(name)) > 1 else "Failed" if code else "Succeeded"
        self.state(name, phase, {"terminated": over})

    def containers(self, name: str) -> list[str]:
        return [one["name"] for one in self.pods[name]["spec"]["containers"]]


class Handler(BaseHTTPRequestHandler):
    cluster: Cluster

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refused(self, status: int, reason: str) -> None:
        self.answer(status, {"kind": "Status", "status": "Failure", "reason": reason, "code": status})

    def do(self) -> None:
        path, cluster = urlsplit(self.path), self.cluster
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        *_, last = parts = path.path.strip("/").split("/")
        cluster.calls.append(f"{self.command} {path.path}")
        if cluster.failing:
            cluster.failing -= 1
            return self.refused(503, "ServiceUnavailable")
        if cluster.refusing:
            return self.refused(cluster.refusing, "Forbidden")
        if parts[:4] != ["api", "v1", "namespaces", "steps"]:
            return self.refused(404, "NotFound")
        if self.command == "POST":
            return self.post(json.loads(body))
        name = parts[5]
        if name not in cluster.pods:
            return self.refused(404, "NotFound")
        if self.command == "DELETE":
            return self.answer(200, cluster.pods.pop(name))
        if last != "log":
            return self.answer(200, cluster.pods[name])
        stamped = "timestamps" in parse_qs(path.query)
        lines = [f"{stamp} {line}" if stamped else line for stamp, line in cluster.logs.get(name, [])]
        return self.answer(200, "".join(f"{line}\n" for line in lines).encode())

    def post(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if name in self.cluster.pods:
            return self.refused(409, "AlreadyExists")
        pod["metadata"]["creationTimestamp"] = datetime.now(UTC).isoformat()
        self.cluster.pods[name] = pod | {"status": {"phase": "Pending"}}
        self.cluster.created.set()
        return self.answer(201, self.cluster.pods[name])

    do_GET = do_POST = do_DELETE = do  # noqa: N815


@contextmanager
def fake_kubernetes_api(folder: Path) -> Iterator[tuple[Cluster, Path]]:
    """A running API and the kubeconfig that leads to it."""
    cluster = Cluster()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"cluster": cluster}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "fake", "cluster": {"server": address}}],
                "users": [{"name": "nobody", "user": {}}],
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
                "current-context": "fake",
            }
        )
    )
    try:
        yield cluster, kubeconfig
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
