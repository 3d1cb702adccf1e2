"""Airflow as a child process: the demo's DAG runs, and the web pages. This package itself never imports Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline_tasks.core.errors import InputError

_ROOT = Path(__file__).resolve().parents[2]
_GRACE_S = 15.0
_LOCKED_S = 60
DAGS, PLUGINS = _ROOT / "dags", _ROOT / "plugins"


def local_run(home: Path, environment: dict[str, str], runs: dict[str, dict[str, Any]]) -> int:
    """Run DAGs (id -> parameters) in order, in one process without a scheduler; its exit code."""
    _check_checkout()
    words = [word for dag, conf in runs.items() for word in (dag, json.dumps(conf))]
    command = [sys.executable, "-m", "foundry_airflow.local_run", "--home", str(home), "--dags", str(DAGS), *words]
    one_after_the_other = {"AIRFLOW__FOUNDRY__MAX_GROUPS": "1"}
    found = with_paths(environment) | one_after_the_other
    return subprocess.run(command, env=found, check=False).returncode  # noqa: S603


def web(home: Path, port: int, environment: dict[str, str]) -> int:
    """Airflow with scheduler and web pages until interrupted, every port on 127.0.0.1.

    Airflow prints the user name and the password that it made up. ``airflow standalone`` would do, but its log servers
    listen on all addresses; here the web pages read the logs from the shared folder.
    """
    _check_checkout()
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",
    }
    environment = database(home) | with_paths(environment) | settings
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True)  # noqa: S603
    _make_pools(airflow, environment)
    parts = (
        [*airflow, "api-server", "--host", "127.0.0.1", "--port", str(port)],
        [sys.executable, "-m", "foundry_airflow.scheduler", "--skip-serve-logs"],
        [*airflow, "dag-processor"],
        [*airflow, "triggerer", "--skip-serve-logs"],
    )
    children = [subprocess.Popen(part, env=environment, start_new_session=True) for part in parts]  # noqa: S603
    try:
        return children[0].wait()
    finally:
        for child in children:
            end_group(child)


def database(home: Path) -> dict[str, str]:
    """Where Airflow keeps its state by itself; but a writer waits for another for a minute.

    After five seconds, as SQLite has it, a request is answered by an error 500.
    """
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home.absolute()}/airflow.db?timeout={_LOCKED_S}"}


def _make_pools(airflow: list[str], environment: dict[str, str]) -> None:
    """The pools that steps wait in, where they are missing: the size that an operator gave one stays."""
    with TemporaryDirectory() as folder:
        there = f"{folder}/there.json"
        wanted = PLUGINS / "foundry_airflow" / "pools.json"
        left_out = [sys.executable, str(_ROOT / "containers" / "airflow" / "missing.py"), str(wanted), there]
        for command in ([*airflow, "pools", "export", there], left_out, [*airflow, "pools", "import", there]):
            subprocess.run(command, env=environment, check=True)  # noqa: S603


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End a child and all processes of its group: asked first, killed where that takes too long."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _check_checkout() -> None:
    if not DAGS.is_dir():
        raise InputError(f"there is no {DAGS}; the demo runs from a checkout of the repository")


def with_paths(environment: dict[str, str]) -> dict[str, str]:
    """Airflow calls ``airflow`` and imports this checkout; both must be found without an activated environment."""
    path = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", "")))
    return environment | {"PYTHONPATH": os.pathsep.join((str(_ROOT), str(PLUGINS))), "PATH": path}
