"""Local runs over the toy steps, each in a fork of one process that has imported Airflow and made its database.

Their steps are forks of one process, too.

``python -m toys.local_runs HOME DAGS`` reads runs from its standard input, a JSON object a line, and answers each with
its exit code.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from foundry_airflow import process
from foundry_airflow.starts import forks

from pipeline_tasks.core.settings import take_on
from toys.local_run import local_run

IMPORTED = (
    "airflow.api_fastapi.execution_api.app",
    "airflow.dag_processing.dagbag",
    "airflow.sdk.execution_time.supervisor",
    "airflow.utils.db",
    "foundry_airflow.reporter",
    "foundry_airflow.steps",
)


def in_fork(work: Callable[[], int]) -> int:
    """How ``work`` ended in a process of its own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(work())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def run(arguments: list[str], environment: dict[str, str], folder: str) -> int:
    """A local run as its user starts it; what it says is in the folder's ``stdout`` and ``stderr``."""
    take_on(environment)
    os.chdir(folder)
    for stream in ("stdout", "stderr"):
        with Path(stream).open("wb") as file:
            os.dup2(file.fileno(), getattr(sys, stream).fileno())
    return local_run.main(arguments)


def migrated() -> int:
    """Make the database; the parent never opens it, so that no fork has its connections."""
    from foundry_airflow.internals import migrate

    migrate()
    return 0


def answer() -> None:
    """Do what is asked until nobody can ask any more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    local_run.configure(*map(Path, sys.argv[1:]))
    for module in IMPORTED:
        import_module(module)
    assert in_fork(migrated) == 0
    with forks(process.COMMAND):
        for line in sys.stdin:
            asked = json.loads(line)
            print(in_fork(lambda asked=asked: run(**asked)), file=answers, flush=True)


if __name__ == "__main__":
    answer()
