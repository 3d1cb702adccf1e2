"""The rows of one part, with the columns that its schema has today.

Of a large part in a bucket only the columns that are asked for are fetched, where these are less than half of it, and
checked against its seal. A part without a seal, or of which something does not fit, is fetched whole and checked
against its name, so that what is damaged is told in one way.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.seal import fetched
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import LOST


def read_part(store: Store, part: Part, columns: list[str] | None = None, schema: RowSchema | None = None) -> pa.Table:
    """All rows of one part, removals not yet applied; columns that came to ``schema`` later are null.

    Raises:
        InputError: the part is missing, its bytes are no rows any more, or their columns have changed.
    """
    names = schema.arrow.names if schema and columns is None else columns
    with _opened(store, part, names) as file:
        later = schema.later_than(file.schema_arrow) if schema else []
        return _widened(file.read(columns=names), later, names)


def part_batches(
    store: Store, part: Part, columns: list[str], n_rows: int, schema: RowSchema | None = None
) -> Iterator[pa.Table]:
    """What :func:`read_part` gives, ``n_rows`` rows at most at a time, with no more rows than these in memory."""
    with _opened(store, part, columns) as file:
        later = schema.later_than(file.schema_arrow) if schema else []
        for batch in file.iter_batches(batch_size=n_rows, columns=columns):
            yield _widened(pa.Table.from_batches([batch]), later, columns)


def part_schema(store: Store, part: Part) -> pa.Schema:
    """The columns that a part has."""
    with _opened(store, part, []) as file:
        return file.schema_arrow


@contextmanager
def _opened(store: Store, part: Part, columns: list[str] | None) -> Iterator[pq.ParquetFile]:
    """Tell damaged bytes, where Arrow notices; an error of the system itself has a number."""
    try:
        fetch = None if columns is None else store.ranges(part.key, part.size_bytes)
        pieces = fetched(fetch, part.size_bytes, columns) if fetch and columns is not None else None
        yield pieces or pq.ParquetFile(store.local_path(part.key))
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None) not in (None, errno.EIO):
            raise
        raise InputError(f"{part.key} in {store} cannot be read ({error}); {LOST}") from error


def _widened(table: pa.Table, later: list[pa.Field], columns: list[str] | None) -> pa.Table:
    """``table`` with the columns that came ``later``, in the order of ``columns`` where given."""
    for field in later:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table if columns is None else table.select([name for name in columns if name in table.column_names])
