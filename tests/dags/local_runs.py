"""Runs of the toy DAGs, each a process as ``foundry_airflow.local_run`` has it, forked from one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundry_airflow.local_run import PLUGINS

HERE = Path(__file__).parent
DAGS = HERE / "toy_dags"


class LocalRuns:
    """Asks for runs, one after another."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def __call__(self, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run DAGs in ``folder``, over the store and with the logs there."""
        home = folder / "airflow"
        asked = {
            "arguments": ["--home", str(home), "--dags", str(DAGS), *words],
            "environment": os.environ | import_path() | {"FOUNDRY_STORE": str(folder / "store")} | environment,
            "folder": str(folder),
        }
        assert self._child.stdin and self._child.stdout
        print(json.dumps(asked), file=self._child.stdin, flush=True)
        code = int(self._child.stdout.readline())
        return subprocess.CompletedProcess(list(words), code, *((folder / n).read_text() for n in ("stdout", "stderr")))


def import_path() -> dict[str, str]:
    """Where the children find this checkout and the toys."""
    return {"PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], PLUGINS, HERE)))}


@contextmanager
def local_runs(home: Path) -> Iterator[LocalRuns]:
    """What starts runs; their Airflow's database is below ``home``."""
    child = subprocess.Popen(
        [sys.executable, "-m", "toys.local_runs", home, DAGS],
        env=os.environ | import_path(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        yield LocalRuns(child)
        child.stdin.close()
