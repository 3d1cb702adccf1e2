"""Folds a store's events, manifests and answers into ``lineage.duckdb``, which holds nothing that they do not.

A fold builds a fresh file and renames it over the old one: a reader always opens a whole database, and one that has the
old file open keeps it. One process folds at a time; the others wait for it, and find nothing left to do. Where nothing
has changed since the last fold, it is not repeated.
"""

# ruff: noqa: S608 (only our own table names enter the SQL here)

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline_tasks.core.erasure.listed import PREFIX as ERASURES
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.events import PREFIX as EVENTS
from pipeline_tasks.core.lineage import facts
from pipeline_tasks.core.lineage.rows import add_copied_rows, add_dataset_views, literal
from pipeline_tasks.core.memory import question_mib
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.store import TEMPORARY, Store
from pipeline_tasks.core.store.disk import space_in

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)
DATABASE = "lineage.duckdb"
_BEFORE = ("tables.sql", "shapes.sql", "views.sql")
_AFTER = ("macros.sql",)
_CARRIED = ("llm_calls", "part_responses")


def fold(store: Store) -> Path:
    """The path of a lineage database that holds everything finished before the call.

    Raises:
        InputError: the store cannot be written.
        TransientError: its disk is full.
    """
    target = store.folder / DATABASE
    if _is_current(target, fingerprint(store)):
        return target
    with space_in(store.folder), _only_one(store):
        state = fingerprint(store)
        if not _is_current(target, state):
            _rebuild(store, target, state)
    return target


def fingerprint(store: Store) -> str:
    """sha256 over the names of all events, manifests and answers, all refs and erasures, the place and our SQL.

    Files below these folders never change once they have their name, refs apart, and what an erasure changes.
    """
    seen = sha256(str(store.folder).encode())
    seen.update("".join(map(script, (*_BEFORE, *_AFTER))).encode())
    for folder in (EVENTS, facts.VERSIONS, facts.RESPONSES):
        for key in store.keys(folder):
            seen.update(key.encode())
    for folder in ("refs", ERASURES):
        for key, data in store.read_all(store.keys(folder)):
            seen.update(key.encode() + (data or b""))
    return seen.hexdigest()


@contextmanager
def _only_one(store: Store) -> Iterator[None]:
    path = store.folder / "lineage" / "fold.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise InputError(f"the folder {store.folder} cannot be written ({error}); check FOUNDRY_STORE") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def attached(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own to the file that has this name now.

    Not ``duckdb.connect(path)``: within a process that shares one instance per path, with its settings and the file
    that it opened first, so that a thread would go on reading a database that was replaced.
    """
    import duckdb

    with duckdb.connect(":memory:") as con:
        con.execute(f"ATTACH {literal(str(database))} AS lineage (READ_ONLY)")
        con.execute("USE lineage")
        yield con


def _is_current(target: Path, state: str) -> bool:
    import duckdb

    if not target.is_file():
        return False
    try:
        with attached(target) as con:
            return con.execute("SELECT fingerprint FROM fold_state").fetchall() == [(state,)]
    except duckdb.Error as error:
        log.info("%s is folded anew: %s", target, error)
        return False


def _rebuild(store: Store, target: Path, state: str) -> None:
    import duckdb

    fresh = store.folder / TEMPORARY / f"fold-{os.getpid()}.duckdb"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    for leftover in fresh.parent.glob("fold-*.duckdb*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    with duckdb.connect(str(fresh)) as con:
        con.execute(f"SET memory_limit = '{2 * question_mib()}MiB'")  # beyond that it writes beside the file
        for name in _BEFORE:
            con.execute(script(name))
        _carry_over(con, target)
        con.execute("BEGIN")
        _fill(con, store)
        now = datetime.now(UTC).replace(tzinfo=None)
        con.execute("INSERT INTO fold_state VALUES (?, ?)", [state, now])
        con.execute("COMMIT")
        for name in _AFTER:
            con.execute(script(name))
        con.execute("CHECKPOINT")
    fresh.replace(target)


def _carry_over(con: duckdb.DuckDBPyConnection, old: Path) -> None:
    """Take what never changes (paid answers, which part names which) from the database before, if it can be read."""
    import duckdb

    if not old.is_file():
        return
    try:
        con.execute(f"ATTACH {literal(str(old))} AS old (READ_ONLY)")
    except duckdb.Error as error:
        log.info("nothing is taken over from %s: %s", old, error)
        return
    for table in _CARRIED:
        try:
            con.execute(f"INSERT INTO {table} SELECT * FROM old.{table}")
        except duckdb.Error as error:
            log.info("%s is read anew: %s", table, error)
    con.execute("DETACH old")


def _fill(con: duckdb.DuckDBPyConnection, store: Store) -> None:
    problems: facts.Rows = []
    steps, counters, moves = facts.event_rows(store, problems)
    found = facts.manifests(store, problems)
    known = {name for (name,) in con.execute("SELECT response_id FROM llm_calls").fetchall()}
    paid = {sha for (sha,) in con.execute("SELECT DISTINCT sha256 FROM part_responses").fetchall()}
    tables = {"steps": steps, "counters": counters, "moves": moves}
    tables["llm_calls"] = facts.response_rows(store, known, problems)
    tables["part_responses"] = facts.receipt_rows(store, paid, problems)
    for name, rows in (tables | facts.version_rows(store, found, steps)).items():
        _insert(con, name, rows)
    add_copied_rows(con, store, found, problems)
    add_dataset_views(con, store, found, problems)
    _insert(con, "problems", problems)
    for problem in problems:
        log.warning("lineage: %s: %s", problem["key"], problem["problem"])


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: facts.Rows) -> None:
    schema = con.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
    batch = pa.Table.from_pylist(rows, schema=schema)
    con.register("batch", batch)
    con.execute(f"INSERT INTO {table} SELECT * FROM batch")
    con.unregister("batch")
