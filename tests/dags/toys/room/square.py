import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from toys.rows import NUMBERS, numbers


class SquareParams(StepParams):
    refuse: int | None = None


@step(reads={"numbers": NUMBERS}, writes=NUMBERS, kind="map", dataset="squares", pool="llm")
def square(rows: pa.Table, params: SquareParams, run: Run) -> pa.Table:
    """Squares, but never that of ``refuse``."""
    values = rows["number"].to_pylist()
    if params.refuse in values:
        raise InputError(f"refuse={params.refuse} is among the numbers")
    return numbers([value**2 for value in values])
