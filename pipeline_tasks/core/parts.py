"""The rows of one part, as they are written, and as they are read with the columns that its schema has today.

Of a large part in a bucket only the columns that are asked for are fetched, where these are less than half of it, and
checked against its seal. A part without a seal, or of which something does not fit, is fetched whole and checked
against its name, so that what is damaged is told in one way.

Columns that hold files (:data:`BODY`), such as PDFs, lie in an object of their own beside the rows: only who asks for
one opens it. The rows say in their metadata which object that is and where its columns belong, so that their sha256
names it, too. Parts of earlier releases hold such columns themselves.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.dictionaries import holds_dictionary, with_distinct_dictionaries
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.pins import create_despite_upkeep
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.seal import fetched, seal
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import LOST

BODY = pa.large_binary()
"""The type of columns that hold files."""
_TOLD = b"bodies"
_ONE_DICTIONARY = 1 << 30


def write_rows(store: Store, table: pa.Table) -> Part:
    """Store ``table`` as one part; the same rows always give the same bytes.

    A column of dictionary type stays one whatever its size: a long text that many rows share is there once. Beside
    such columns no other gets a dictionary, which would be as large as the column where all values differ. Columns that
    hold files lie in an object of their own, see :mod:`pipeline_tasks.core.parts`.
    """
    files = [field.name for field in table.schema if field.type == BODY]
    if not files or not table.num_rows:
        return _write(store, table)
    bodies = _write(store, table.select(files))
    facts = {"sha256": bodies.sha256, "columns": table.schema.names}
    rows = table.drop_columns(files).replace_schema_metadata({_TOLD: json.dumps(facts).encode()})
    return _write(store, rows).model_copy(update={"bodies": bodies})


def write_passing(store: Store, table: pa.Table) -> Part:
    """Store ``table`` as one part that functions of a step hand on, mostly of hashes and cosines, of which few repeat.

    No dictionary is tried for these: with them writing takes two to three times as long.
    """
    return _write(store, table, repeats=False)


def _write(store: Store, table: pa.Table, repeats: bool = True) -> Part:
    table = with_distinct_dictionaries(table)
    shared = [_leaf(field) for field in table.schema if holds_dictionary(field.type)]
    with store.temporary(".parquet") as path:
        pq.write_table(
            table,
            path,
            compression="zstd",
            row_group_size=65_536,
            version="2.6",
            write_page_index=True,
            use_dictionary=shared or repeats,
            dictionary_pagesize_limit=_ONE_DICTIONARY if shared else None,
        )
        seal(path)
        return _store_file(store, path, rows=table.num_rows)


def _leaf(field: pa.Field) -> str:
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name


def write_file(store: Store, path: Path, name: str) -> Part:
    """Store a local file, never to be written again, as the part called ``name`` (for models)."""
    return _store_file(store, path, rows=0, name=name)


def _store_file(store: Store, path: Path, rows: int, name: str | None = None) -> Part:
    part = Part(sha256=file_sha256(path), rows=rows, size_bytes=path.stat().st_size, name=name)
    create_despite_upkeep(store, part.key, lambda: store.create_from(part.key, path))
    return part


def read_part(store: Store, part: Part, columns: list[str] | None = None, schema: RowSchema | None = None) -> pa.Table:
    """All rows of one part, removals not yet applied; columns that came to ``schema`` later are null.

    Raises:
        InputError: the part is missing, its bytes are no rows any more, or their columns have changed.
    """
    names = schema.arrow.names if schema and columns is None else columns
    with _opened(store, part, names) as file:
        held, rows = _part_schema(file), file.read(columns=names)
    later = schema.later_than(held) if schema else []
    wanted = held.names if names is None else names
    if files := _files_of(part, held, wanted):
        with _opened(store, files, wanted) as file:
            rows = _beside(rows, file.read(columns=wanted))
    return _widened(rows, later, wanted)


def part_batches(
    store: Store, part: Part, columns: list[str], n_rows: int, schema: RowSchema | None = None
) -> Iterator[pa.Table]:
    """What :func:`read_part` gives, ``n_rows`` rows at most at a time, with no more rows than these in memory."""
    with _opened(store, part, columns) as file:
        held = _part_schema(file)
        later = schema.later_than(held) if schema else []
        batches = map(_table, file.iter_batches(batch_size=n_rows, columns=columns))
        files = _files_of(part, held, columns)
        if files is None:
            yield from (_widened(rows, later, columns) for rows in batches)
            return
        with _opened(store, files, columns) as beside:
            bodies = map(_table, beside.iter_batches(batch_size=n_rows, columns=columns))
            for rows, files_of_rows in zip(batches, bodies, strict=True):
                yield _widened(_beside(rows, files_of_rows), later, columns)


def part_schema(store: Store, part: Part) -> pa.Schema:
    """The columns that a part has."""
    with _opened(store, part, []) as file:
        return _part_schema(file)


def _part_schema(file: pq.ParquetFile) -> pa.Schema:
    """The columns of a part, those that lie beside its rows in their places."""
    schema = file.schema_arrow
    if _TOLD not in (schema.metadata or {}):
        return schema
    columns = json.loads(schema.metadata[_TOLD])["columns"]
    return pa.schema([schema.field(n) if n in schema.names else pa.field(n, BODY) for n in columns])


def _files_of(part: Part, held: pa.Schema, columns: list[str]) -> Part | None:
    """The object beside ``part`` in which one of ``columns`` lies."""
    asked = any(name in held.names and held.field(name).type == BODY for name in columns)
    return part.bodies if asked else None


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _beside(rows: pa.Table, files: pa.Table) -> pa.Table:
    for field in files.schema:
        rows = rows.append_column(field, files[field.name])
    return rows


@contextmanager
def _opened(store: Store, part: Part, columns: list[str] | None) -> Iterator[pq.ParquetFile]:
    with damage_told(store, part.key):
        fetch = None if columns is None else store.ranges(part.key, part.size_bytes)
        pieces = fetched(fetch, part.size_bytes, columns) if fetch and columns is not None else None
        yield pieces or pq.ParquetFile(store.local_path(part.key))


@contextmanager
def damage_told(store: Store, key: str) -> Iterator[None]:
    """Tell damaged bytes of the object ``key``, where Arrow notices; an error of the system itself has a number.

    Raises:
        InputError: they are damaged.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None) not in (None, errno.EIO):
            raise
        raise InputError(f"{key} in {store} cannot be read ({error}); {LOST}") from error


def _widened(table: pa.Table, later: list[pa.Field], columns: list[str]) -> pa.Table:
    """``table`` with the columns that came ``later``, in the order of ``columns``; without what is told of files."""
    for field in later:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    table = table.select([name for name in columns if name in table.column_names])
    return table.replace_schema_metadata(None) if _TOLD in (table.schema.metadata or {}) else table
