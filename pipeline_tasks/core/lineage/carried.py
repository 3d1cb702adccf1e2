"""What a fold takes over from the database before: what was read from files that never change is not read again."""

# ruff: noqa: S608 (only our own table names enter the SQL here)

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline_tasks.core.lineage.rows import literal
from pipeline_tasks.core.paid.response_store import BROKEN_OFF
from pipeline_tasks.core.store import Entry

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)
_OF_ANSWERS = {"llm_calls": f"WHERE finish_reason NOT IN {BROKEN_OFF}", "part_responses": ""}
_OF_EVENTS = ("events", "steps", "counters", "moves")
_OWN = ("problems", "manifests", "fold_state")
_TABLES = """
SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND database_name = current_database() ORDER BY ALL"""


def carry_over(
    con: duckdb.DuckDBPyConnection, old: Path, base: str, events: Iterable[str], versions: Iterable[Entry]
) -> None:
    """Fill the tables of ``con`` with what the database ``old`` holds and still is so, if it can be read.

    Answers always stay, but for those that were broken off, which may have been bought again since. All else stays if
    it was read with the same SQL, no event is gone, and no part was damaged or missing, which somebody may have mended
    since; versions that are gone or were made again are left out.

    Args:
        con: the database that is made, empty.
        old: the one before.
        base: sha256 of what all rows depend on.
        events: keys of the events of today.
        versions: the manifests of today.
    """
    import duckdb

    try:
        con.execute(f"ATTACH {literal(str(old))} AS old (READ_ONLY)")
    except duckdb.Error as error:
        log.info("nothing is taken over from %s: %s", old, error)
        return
    for table, where in _OF_ANSWERS.items():
        _take(con, table, where)
    if _still_so(con, base, events):
        listed = pa.schema({"key": pa.string(), "size_bytes": pa.int64(), "modified": pa.float64()})
        con.register("today", pa.Table.from_pylist(list(map(asdict, versions)), listed))
        con.execute(
            "CREATE TEMP TABLE there AS SELECT key FROM old.manifests JOIN today USING (key, size_bytes, modified)"
        )
        con.unregister("today")
        for table in _OF_EVENTS:
            _take(con, table)
        names = {name for (name,) in con.execute(_TABLES).fetchall()}
        for table in sorted(names.difference(_OF_ANSWERS, _OF_EVENTS, _OWN)):
            _take(con, table, "WHERE 'versions/' || dataset || '/' || version || '.json' IN (FROM there)")
        con.execute("DROP TABLE there")
    con.execute("DETACH old")


def _take(con: duckdb.DuckDBPyConnection, table: str, where: str = "") -> None:
    import duckdb

    try:
        con.execute(f"INSERT INTO {table} SELECT * FROM old.{table} {where}")
    except duckdb.Error as error:
        log.info("%s is read anew: %s", table, error)


def _still_so(con: duckdb.DuckDBPyConnection, base: str, events: Iterable[str]) -> bool:
    import duckdb

    try:
        same = con.execute("SELECT base FROM old.fold_state").fetchall() == [(base,)]
        con.execute("FROM old.manifests LIMIT 0")
        damaged = con.execute("SELECT 1 FROM old.problems WHERE starts_with(key, 'objects/')").fetchall()
        read = {key for (key,) in con.execute("SELECT key FROM old.events").fetchall()}
    except duckdb.Error as error:
        log.info("versions and events are read anew: %s", error)
        return False
    return same and not damaged and read.issubset(events)
