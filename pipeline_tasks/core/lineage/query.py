"""Questions to the lineage database. The SQL may come from anybody: it reads the lineage and the rows, nothing else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.fold import attached, fold
from pipeline_tasks.core.lineage.rows import literal, path_literal
from pipeline_tasks.core.memory import question_mib
from pipeline_tasks.core.store import Store

if TYPE_CHECKING:
    import duckdb

MAX_ROWS = 10_000
"""Of an answer to whoever asks."""
ALL_ROWS = 1 << 40
"""Of an answer to a question of our own, which would be wrong without the rest."""
_SHOWN = """
SELECT DISTINCT sha256 FROM parts JOIN versions USING (dataset, version)
WHERE is_latest AND name IS NULL AND kind <> 'reject'
"""
_NODES, _FUNCTIONS = (re.compile(rf'"{name}":\s*"([^"]*)"') for name in ("type", "function_name"))
_READS = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""What a statement may be made of. A WITH may hold a COPY too, which writes where it may read."""
_READ_FROM = re.compile(r'"type":\s*"TABLE_FUNCTION".*?"function_name":\s*"([^"]*)"', re.DOTALL)
_READERS = frozenset(
    """
    ancestors_of cost_by_intent cost_of trace_passage trace_query version_named
    generate_series glob histogram histogram_values json_each json_tree range repeat repeat_row summary test_all_types
    unnest
    read_blob read_csv read_csv_auto read_json read_json_auto read_json_objects read_json_objects_auto read_ndjson
    read_ndjson_auto read_ndjson_objects read_parquet read_text sniff_csv
    parquet_bloom_probe parquet_file_metadata parquet_full_metadata parquet_kv_metadata parquet_metadata parquet_scan
    parquet_schema
    duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_extensions duckdb_functions
    duckdb_indexes duckdb_keywords duckdb_memory duckdb_optimizers duckdb_schemas duckdb_sequences duckdb_settings
    duckdb_tables duckdb_types duckdb_variables duckdb_views
    pragma_collations pragma_database_size pragma_metadata_info pragma_platform pragma_show pragma_storage_info
    pragma_table_info pragma_version
    """.split()
)
"""What a FROM may call, our macros first. Others write, set, or run a text, some by the name of a function."""
_PLANS_SQL = "json_serialize_plan"
"""The one function outside a FROM whose argument is a statement that DuckDB works on."""
_SETTINGS = {
    "temp_directory": "''",
    "TimeZone": "'UTC'",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


def query(
    store: Store,
    sql: str,
    values: list[object] | None = None,
    *,
    rows: bool = True,
    max_rows: int = MAX_ROWS,
    timeout_s: float = 60.0,
) -> pa.Table:
    """The answer to one SELECT over everything that was finished before the call, ``max_rows`` rows of it at most.

    Args:
        store: where everything is.
        sql: one SELECT (also WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW); anything that could write is refused.
        values: for the ``?`` in it.
        rows: whether it may read the latest rows of datasets, which are brought to this machine for that.
        max_rows: rows returned at most.
        timeout_s: the query is ended after so many seconds.

    Raises:
        InputError: not one SELECT, wrong SQL, something that a query may not touch, or out of memory or time.
    """
    with connect(fold(store, rows=rows), store.folder / "objects") as con:
        if rows:
            bring_shown(store, con)
        return answer(con, sql, values, max_rows=max_rows, timeout_s=timeout_s)


def bring_shown(store: Store, con: duckdb.DuckDBPyConnection) -> None:
    """Make the parts that the views of latest versions read local."""
    store.bring(f"objects/{sha256[:2]}/{sha256}.parquet" for (sha256,) in con.execute(_SHOWN).fetchall())


def answer(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    values: list[object] | None = None,
    *,
    max_rows: int = MAX_ROWS,
    timeout_s: float = 60.0,
) -> pa.Table:
    """What :func:`query` gives, on a connection from :func:`connect`."""
    with run_select(con, sql, values, timeout_s) as relation:
        return relation.limit(max_rows).to_arrow_table()


@contextmanager
def run_select(
    con: duckdb.DuckDBPyConnection, sql: str, values: list[object] | None, timeout_s: float
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Run one SELECT: its answer before any row is fetched; the time counts until the block ends.

    Raises:
        InputError: see :func:`query`.
    """
    import duckdb

    try:
        if [s.type for s in con.extract_statements(sql)] != [duckdb.StatementType.SELECT]:
            raise InputError("the lineage is read-only: give one SELECT (or WITH, DESCRIBE, SUMMARIZE, SHOW)")
        with _ended_after(con, timeout_s):
            _check_reads(con, sql)
            relation = con.sql(sql, params=values)
            if relation is None:
                raise InputError("that statement has no result; give a SELECT")
            yield relation
    except duckdb.InterruptException as error:
        raise InputError(f"the query took more than {timeout_s:g} s and was ended; narrow it down") from error
    except duckdb.Error as error:
        raise InputError(f"the query failed: {error}") from error


def _check_reads(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse a SELECT that does more than read, in whatever part of it.

    Raises:
        InputError: it does.
    """
    ((parsed,),) = con.execute("SELECT json_serialize_sql(?)::VARCHAR", [sql]).fetchall()
    nodes = {name for name in _NODES.findall(parsed) if name.endswith("_NODE")}
    if other := sorted(nodes - _READS):
        kind = other[0].removesuffix("_NODE").removesuffix("_QUERY")
        raise InputError(f"the lineage is read-only: leave out the {kind}, and give one SELECT of what is there")
    called = {name.lower() for name in _READ_FROM.findall(parsed)} - _READERS
    called |= {_PLANS_SQL} & {name.lower() for name in _FUNCTIONS.findall(parsed)}
    if other := sorted(called):
        raise InputError(f"the lineage is read-only: {other[0]}() is none of the functions that a question may call")
    if not nodes:
        raise InputError("that statement cannot be looked into; write it as a plain SELECT")


@contextmanager
def connect(
    database: Path, objects: Path, *, memory_mib: int = 0, threads: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A locked, read-only connection that can open files below ``objects`` and no other, in its share of memory."""
    with attached(database) as con:
        folder = f"{objects}/"  # DuckDB looks at the pattern, and at the path that it stands for
        con.execute(f"SET allowed_directories = [{literal(folder)}, {path_literal(folder)}]")
        con.execute(f"SET memory_limit = '{memory_mib or question_mib()}MiB'")
        if threads:
            con.execute(f"SET threads = {threads}")
        for name, value in _SETTINGS.items():
            con.execute(f"SET {name} = {value}")
        yield con


@contextmanager
def _ended_after(con: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
