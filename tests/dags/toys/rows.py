"""Rows of the toy steps."""

import pyarrow as pa

from pipeline_tasks.core.schema import Column, RowSchema

NUMBERS = RowSchema(
    "numbers", "number_id", (Column("number_id", pa.string(), "name"), Column("number", pa.int64(), "value"))
)


def numbers(values: list[int]) -> pa.Table:
    return NUMBERS.table([{"number_id": str(value), "number": value} for value in values])
