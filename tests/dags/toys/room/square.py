import os
import signal
from pathlib import Path

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from toys.rows import NUMBERS, numbers


class SquareParams(StepParams):
    refuse: int | None = None
    deadly: str = ""


@step(reads={"numbers": NUMBERS}, writes=NUMBERS, kind="map", dataset="squares", pool="llm")
def square(rows: pa.Table, params: SquareParams, run: Run) -> pa.Table:
    """Squares, but never that of ``refuse``; with a folder ``deadly`` a process is killed at its second part."""
    values = rows["number"].to_pylist()
    if params.deadly:
        die_after_a_part(Path(params.deadly))
    if params.refuse in values:
        raise InputError(f"refuse={params.refuse} is among the numbers")
    return numbers([value**2 for value in values])


def die_after_a_part(folder: Path) -> None:
    """Kill a process that has done a part."""
    mine = folder / f"killed-{os.getpid()}"
    if mine.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    mine.touch()
