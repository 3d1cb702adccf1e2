import pyarrow as pa

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from toys.rows import NUMBERS, numbers


class AgainParams(StepParams):
    plus: int = 0


@step(reads={"totals": From(NUMBERS, "total/{plus}")}, writes=NUMBERS, kind="reduce", dataset="again/{plus}")
def again(inputs: Inputs, params: AgainParams, run: Run) -> pa.Table:
    """The same numbers."""
    return numbers(inputs["totals"].table()["number"].to_pylist())
