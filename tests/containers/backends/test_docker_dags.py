"""Whole DAG runs whose steps are containers, waited for by a worker or by a trigger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.containers
DAGS = Path(__file__).parents[2] / "dags"


@pytest.mark.parametrize("deferrable", ["False", "True"])
def test_a_dag_run_in_containers(deferrable, on_docker, store_folder, root, tmp_path):
    path = os.pathsep.join(map(str, (root, root / "plugins", DAGS)))
    words = ["toy", "toy_stumble", json.dumps({"how": "twice", "mark": str(store_folder / "mark")})]
    folders = ["--home", str(tmp_path / "airflow"), "--dags", str(DAGS / "toy_dags")]
    done = subprocess.run(
        [sys.executable, "-m", "toys.local_run", *folders, *words],
        env=os.environ | {"PYTHONPATH": path, "AIRFLOW__FOUNDRY__DEFERRABLE": deferrable},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((store_folder / "mark").read_text().splitlines()) == 3, "busy twice, then done"
    log = (tmp_path / "airflow" / "logs" / "local_run.log").read_text()
    assert "square: built" in log, "the steps' own lines are in the task log"
    assert ("CommandTrigger" in log) == (deferrable == "True")
