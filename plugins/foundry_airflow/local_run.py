"""Runs DAGs one after another in this process, without a scheduler: for the demo, for tests, to try a change.

``python -m foundry_airflow.local_run --home DIR --dags DIR DAG [CONF] [DAG [CONF]] …``, where CONF is a JSON object.
Airflow keeps its database in ``--home``; what the tasks print goes to ``<home>/logs/local_run.log``, one line a task to
the terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Runs = list[tuple[str, dict[str, Any]]]
PLUGINS = Path(__file__).resolve().parents[1]


class RunFailed(Exception):
    """A DAG run failed; the message names the task and shows the end of its log."""


def configure(home: Path, dags: Path) -> None:
    """Point Airflow at ``home`` and ``dags``; comes before the first import of Airflow in the process."""
    home.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "AIRFLOW_HOME": str(home.absolute()),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags.absolute()),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",
        "AIRFLOW__FOUNDRY__RETRY_DELAY_S": "1",
    }


def run_dags(dags: Path, runs: Runs, say: Callable[[str], None], log_file: Path | None = None) -> None:
    """Run each DAG with its parameters, in order.

    Args:
        dags: folder of the DAG files.
        runs: DAG id and the run's parameters.
        say: told about every task that ended.
        log_file: where this process's output goes, if to a file.

    Raises:
        RunFailed: a DAG is not there or its run failed; those after it are not started.
    """
    from airflow.sdk.listener import get_listener_manager

    from foundry_airflow.internals import dag_bag
    from foundry_airflow.reporter import Reporter

    found = dag_bag(dags)
    for dag_id, conf in runs:
        if dag_id not in found.dags:
            raise RunFailed(f"no DAG {dag_id!r} in {dags}: {found.import_errors or sorted(found.dags)}")
        reporter = Reporter(dag_id, say, log_file)
        get_listener_manager().add_listener(reporter)
        dag = found.dags[dag_id]
        dag.deadline = None  # is the scheduler's business, and DAG.test() cannot read it back
        try:
            run = dag.test(run_conf=conf)
        finally:
            get_listener_manager().pm.unregister(reporter)
        failed = [ti.task_id for ti in run.get_task_instances() if ti.state == "failed"]
        if failed or run.state != "success":
            raise RunFailed(f"{dag_id} ended as {run.state}: {reporter.failure()}")


def parse_runs(words: list[str]) -> Runs:
    """``DAG [CONF] …`` as pairs.

    Raises:
        ValueError: a CONF comes first or is no JSON object.
    """
    runs: Runs = []
    for word in words:
        if not word.startswith("{"):
            runs.append((word, {}))
        elif not runs:
            raise ValueError(f"{word!r} comes before any DAG")
        else:
            runs[-1] = (runs[-1][0], json.loads(word))
    return runs


def main(arguments: list[str] | None = None) -> int:
    """Entry point; 0 where every run ended well, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="foundry_airflow.local_run", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder for Airflow's database and logs")
    parser.add_argument("--dags", type=Path, required=True, help="folder of the DAG files")
    parser.add_argument("runs", nargs="+", metavar="DAG [CONF]", help="DAG id, then its parameters as JSON")
    options = parser.parse_args(arguments)
    runs = parse_runs(options.runs)
    configure(options.home, options.dags)
    log_file = options.home / "logs" / "local_run.log"
    terminal = _redirect_output(log_file)
    try:
        from foundry_airflow import process
        from foundry_airflow.internals import migrate
        from foundry_airflow.starts import forks

        migrate()
        with forks(process.COMMAND):
            run_dags(options.dags, runs, lambda line: print(line, file=terminal, flush=True), log_file)  # noqa: T201
    except RunFailed as error:
        print(error, file=terminal, flush=True)  # noqa: T201
        return 1
    return 0


def _redirect_output(log_file: Path) -> Any:
    """Send the output of this process and its children to ``log_file``; what is returned still is the terminal."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with log_file.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return terminal


if __name__ == "__main__":
    sys.exit(main())
