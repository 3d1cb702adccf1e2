"""Airflow on loopback, each part a process: as in production, its clock moved, and as ``make ui`` has it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from pipeline_tasks.demo.airflow import database, end_group
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_S = 480.0
ENDS = ("success", "failed")
QUICK = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": f"{PATIENCE_S}",
}
UI = """
import os, signal, sys
from pathlib import Path
from pipeline_tasks.demo.airflow import web
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
web(Path(sys.argv[1]), int(sys.argv[2]), dict(os.environ))
"""


class Airflow:
    """What a user of the REST API sees."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """The JSON answer of ``/api/v2/<path>``; SQLite refuses some who wait, who ask again."""
        for _ in range(5):
            answer = self._client.request(method, f"/api/v2/{path}", json=body or None)
            if answer.status_code != httpx.codes.INTERNAL_SERVER_ERROR or method == "POST":
                break
            time.sleep(1)
        answer.raise_for_status()
        return answer.json()

    def log_in(self) -> None:
        """Take a token."""
        token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def healthy(self) -> bool:
        """Whether the scheduler says that it runs; the API answering is not enough."""
        try:
            answer = self._client.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK and answer.json()["scheduler"]["status"] == "healthy"

    def resume(self, *dag_ids: str) -> None:
        """Let DAGs run, once they are parsed."""

        def parsed() -> bool:
            return {*dag_ids} <= {dag["dag_id"] for dag in self.ask("GET", "dags")["dags"]}

        wait_for(parsed, PATIENCE_S, "parsing")
        for dag_id in dag_ids:
            self.ask("PATCH", f"dags/{dag_id}", is_paused=False)

    def start(self, dag_id: str, **body: Any) -> httpx.Response:
        """Ask for a run."""
        return self._client.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None} | body)

    def states(self, run: dict[str, Any]) -> dict[str, str]:
        """Task -> its state in a run."""
        path = f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances?limit=100"
        return {task["task_id"]: task["state"] for task in self.ask("GET", path)["task_instances"]}

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Runs of a DAG, the oldest first."""
        return self.ask("GET", f"dags/{dag_id}/dagRuns?order_by=id")["dag_runs"]

    def causes(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """The asset events that started a run."""
        path = f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/upstreamAssetEvents"
        return self.ask("GET", path)["asset_events"]


def wait_for(what: Callable[[], Any], seconds: float, told: str) -> Any:
    """What ``what`` answers, once that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.5)
    raise AssertionError(f"{told} did not happen within {seconds:g} s")


@contextmanager
def airflow(home: Path, environment: dict[str, str], ahead_s: float = 0) -> Iterator[Airflow]:
    """Airflow over the project's DAGs, its clock ``ahead_s`` seconds ahead; one over an old home knows its DAGs."""
    port = free_port()
    environment = (
        environment
        | QUICK
        | database(home)
        | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__FOUNDRY__MAX_GROUPS": "1",
            "AIRFLOW__OPENLINEAGE__DISABLED": "True",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "plugins"))),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", ""))),
        }
    )
    command = [sys.executable, "-m", "tests.e2e.moved_clock", str(ahead_s)]
    parts = [
        ["api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        ["scheduler", "--skip-serve-logs"],
    ]
    if not home.is_dir():
        home.mkdir(parents=True)
        for setup in (["db", "migrate"], ["pools", "import", str(ROOT / "plugins/foundry_airflow/pools.json")]):
            subprocess.run([*command, *setup], env=environment, check=True, capture_output=True, cwd=ROOT)
        parts.append(["dag-processor"])
    with (home / "stack.log").open("ab") as log:
        children = [
            subprocess.Popen(
                [*command, *part], env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
            for part in parts
        ]
    try:
        yield _logged_in(port)
    finally:
        for child in children:
            end_group(child)


@contextmanager
def ui(home: Path, environment: dict[str, str]) -> Iterator[Airflow]:
    """The Airflow of ``make ui``, which ends whole when it is told to."""
    port = free_port()
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", UI, str(home), str(port)]
    with (home / "ui.log").open("ab") as log:
        child = subprocess.Popen(command, env=environment | QUICK, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield _logged_in(port)
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 143
    with socket.socket() as knock:
        assert knock.connect_ex(("127.0.0.1", port)), "the web pages are still there"


def _logged_in(port: int) -> Airflow:
    found = Airflow(f"http://127.0.0.1:{port}")
    wait_for(found.healthy, PATIENCE_S, "a healthy scheduler")
    found.log_in()
    return found
