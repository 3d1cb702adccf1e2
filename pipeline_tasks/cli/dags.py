"""The steps of a DAG, as its file says: Airflow reads it in a process of its own, without its database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from pipeline_tasks.cli.plan_chain import PlannedStep
from pipeline_tasks.core.errors import FoundryError, InputError, installed_with
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.demo.airflow import DAGS, with_paths


def dag_names() -> list[str]:
    """The DAGs of this checkout: one a file, of the same name."""
    return sorted(path.stem for path in DAGS.glob("*.py"))


def steps_of(dag: str, values: dict[str, Any]) -> tuple[list[PlannedStep], list[str]]:
    """The steps that a run of ``dag`` with these form fields has, in their order, and names of those that it skips.

    Raises:
        InputError: Airflow is not installed, a field is unknown or has a wrong value, or what the run reads first is
            not in the store.
    """
    if find_spec("airflow") is None:
        raise InputError(
            f"{dag} is a DAG, and Airflow, which reads its file, is not installed: {installed_with('airflow')}, "
            "or name its steps in their order: foundry plan STEP STEP …"
        )
    command = [sys.executable, "-m", "foundry_airflow.outline", str(DAGS), dag, json.dumps(values)]
    done = subprocess.run(  # noqa: S603
        command, env=with_paths(os.environ | {}), capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.strip():
        raise FoundryError(f"the DAG {dag} cannot be read: {done.stderr.strip()[-2000:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    if "error" in answer:
        raise InputError(f"{dag}: {answer['error']}")
    planned = [PlannedStep(get_step(one["step"]), one["values"], one["inputs"], one["name"]) for one in answer["steps"]]
    return planned, answer["skipped"]
