import pyarrow as pa

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from toys.rows import NUMBERS, numbers


class TotalParams(StepParams):
    plus: int = 0


@step(
    reads={"squares": From(NUMBERS, "squares", may_be_none=True)}, writes=NUMBERS, kind="reduce", dataset="total/{plus}"
)
def total(inputs: Inputs, params: TotalParams, run: Run) -> pa.Table:
    """The sum of all numbers of all inputs."""
    found = [number for version in inputs.each("squares") for number in version.table()["number"].to_pylist()]
    run.count("sum", sum(found) + params.plus)
    return numbers([sum(found) + params.plus])
