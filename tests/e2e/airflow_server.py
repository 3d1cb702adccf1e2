"""Airflow's own servers on loopback, as ``make ui`` starts them, and its REST API."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0
CHILD = """
import os, signal, sys
from pathlib import Path
from pipeline_tasks.demo.airflow import web
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
web(Path(sys.argv[1]), int(sys.argv[2]), dict(os.environ))
"""


class Api:
    """The REST API of a running Airflow, as its administrator."""

    def __init__(self, url: str, password: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)
        self._password = password

    def wait(self) -> None:
        """Return once the scheduler lives and every DAG can be started."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            assert time.monotonic() < deadline, "Airflow did not come up"
            time.sleep(0.5)

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError, KeyError):
            health = self._http.get("/api/v2/monitor/health")
            if health.status_code != httpx.codes.OK or health.json()["scheduler"]["status"] != "healthy":
                return False
            login = self._http.post("/auth/token", json={"username": "admin", "password": self._password})
            self._http.headers["Authorization"] = f"Bearer {login.json()['access_token']}"
            return self._http.get("/api/v2/dags").json()["total_entries"] == len(list((ROOT / "dags").glob("*.py")))
        return False

    def unpause(self, dag: str) -> None:
        """Let the scheduler run ``dag``."""
        self._http.patch(f"/api/v2/dags/{dag}", json={"is_paused": False}).raise_for_status()

    def post(self, dag: str, **body: Any) -> httpx.Response:
        """Ask for a run."""
        return self._http.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None} | body)

    def finished(self, dag: str, **body: Any) -> dict[str, str]:
        """Ask for a run and wait for its end: state of each task."""
        asked = self.post(dag, **body)
        assert asked.status_code == httpx.codes.OK, asked.text
        run = f"/api/v2/dags/{dag}/dagRuns/{asked.json()['dag_run_id']}"
        deadline = time.monotonic() + PATIENCE_S
        while (state := self._http.get(run).json()["state"]) in ("queued", "running"):
            assert time.monotonic() < deadline, f"{dag} is still {state}"
            time.sleep(0.5)
        tasks = self._http.get(f"{run}/taskInstances", params={"limit": 100}).json()["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks} | {"": state}


@contextmanager
def airflow(home: Path, environment: Mapping[str, str]) -> Iterator[Api]:
    """Scheduler, DAG processor and API server with a database of their own, until the block ends."""
    password, passwords = secrets.token_urlsafe(), home / "passwords.json"
    home.mkdir(parents=True)
    passwords.write_text(json.dumps({"admin": password}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    }
    command = [sys.executable, "-c", CHILD, str(home), str(port)]
    with (home / "servers.log").open("wb") as log:
        child = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment | own, stdout=log, stderr=log, start_new_session=True
        )
    try:
        api = Api(f"http://127.0.0.1:{port}", password)
        api.wait()
        yield api
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()
