import logging
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pyarrow as pa

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution import headway
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from toys.rows import NUMBERS, numbers

log = logging.getLogger(__name__)
headway.LOOK_S = 0.05


class StumbleParams(StepParams):
    how: str
    mark: str


@step(reads={}, writes=NUMBERS, kind="reduce", dataset="stumbles", resumes=True, secrets=("llm",))
def stumble(inputs: Inputs, params: StumbleParams, run: Run) -> pa.Table:
    """Fail as told; one line is added to the file ``mark`` for every attempt."""
    mark = Path(params.mark)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) if params.how == "hang" else None
    with mark.open("a") as file:
        file.write(f"{os.getpid()} {child.pid if child else 0}\n")
    if params.how == "input":
        raise InputError("this can never work")
    if params.how == "twice" and len(mark.read_text().splitlines()) < 3:
        raise TransientError("the endpoint is busy")
    if params.how == "killed" and len(mark.read_text().splitlines()) < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if params.how == "bug":
        raise ZeroDivisionError("a bug")
    if params.how == "hang":
        time.sleep(600)
    if params.how == "memory":
        b"x" * 2**29
    if params.how == "wait":
        for n in count():
            log.info("tick %d", n)
            if mark.with_suffix(".go").exists():
                break
            time.sleep(0.1)
    if params.how == "climb":
        climb(run)
    if params.how == "tell":
        log.info("environment: %s", dict(os.environ))
    return numbers([1])


def climb(run: Run) -> None:
    """Leave one more checkpoint and be killed when the store knows of it, until there are two."""
    steps = len(list(run.scratch.glob("step-*")))
    if steps < 2:
        before = marks(run)
        (run.scratch / f"step-{steps}").write_text("kept")
        while marks(run) == before:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def marks(run: Run) -> list[bytes | None]:
    return [run.store.read(key) for key in run.store.keys(headway.MARKS)]
