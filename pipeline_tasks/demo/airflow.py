"""Airflow as a child process: the demo's DAG runs, and the web pages. This package itself never imports Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError

_ROOT = Path(__file__).resolve().parents[2]
DAGS, PLUGINS = _ROOT / "dags", _ROOT / "plugins"

RUNS: dict[str, dict[str, Any]] = {
    "corpus_refresh": {"max_tokens": 128},
    "synthesize_pairs": {"sample_rate": 0.6},
    "build_triplets": {},
    "train_retriever": {
        "size": "33m",
        "max_query_length": 64,
        "max_passage_length": 128,
        "pretrain_epochs": 12,
        "pretrain_batch_size": 16,
        "pretrain_learning_rate": 1e-4,
        "pretrain_reset_layers": 9,
        "finetune_batch_size": 8,
        "finetune_in_batch": True,
    },
}
"""What the demo asks of each DAG: a sample of the passages, short texts and small batches, for two cores."""


def local_run(home: Path, environment: dict[str, str], runs: dict[str, dict[str, Any]] = RUNS) -> int:
    """Run DAGs (id -> parameters) in order, in one process without a scheduler; its exit code."""
    _check_checkout()
    words = [word for dag, conf in runs.items() for word in (dag, json.dumps(conf))]
    command = [sys.executable, "-m", "foundry_airflow.local_run", "--home", str(home), "--dags", str(DAGS), *words]
    return subprocess.run(command, env=_with_paths(environment), check=False).returncode  # noqa: S603


def standalone(home: Path, port: int, environment: dict[str, str]) -> int:
    """Airflow with scheduler and web pages on 127.0.0.1 until interrupted.

    Airflow prints the address, the user name and the password that it made up.
    """
    _check_checkout()
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",
    }
    environment = _with_paths(environment) | settings
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True)  # noqa: S603
    pools = str(PLUGINS / "foundry_airflow" / "pools.json")
    subprocess.run([*airflow, "pools", "import", pools], env=environment, check=True)  # noqa: S603
    child = subprocess.Popen([*airflow, "standalone"], env=environment, start_new_session=True)  # noqa: S603
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(30)


def _check_checkout() -> None:
    if not DAGS.is_dir():
        raise InputError(f"there is no {DAGS}; the demo runs from a checkout of the repository")


def _with_paths(environment: dict[str, str]) -> dict[str, str]:
    return environment | {"PYTHONPATH": os.pathsep.join((str(_ROOT), str(PLUGINS)))}
