import pyarrow as pa

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, NoParams, step
from toys.rows import NUMBERS, numbers


@step(reads={"init": From(NUMBERS, "numbers")}, writes=NUMBERS, kind="reduce", dataset="refined")
def refine(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """One more than the largest number of ``init``."""
    return numbers([max(inputs["init"].table()["number"].to_pylist()) + 1])
