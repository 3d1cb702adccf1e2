from collections.abc import Iterator

import pyarrow as pa

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from toys.rows import NUMBERS, numbers


class CountParams(StepParams):
    parts: int = 4


@step(reads={}, writes=NUMBERS, kind="reduce")
def count(inputs: Inputs, params: CountParams, run: Run) -> Iterator[pa.Table]:
    """Two numbers a part."""
    for part in range(params.parts):
        yield numbers([2 * part, 2 * part + 1])
