"""Folds a store's events, manifests and answers into ``lineage.duckdb``, which holds nothing that they do not.

A fold builds a fresh file and renames it over the old one: a reader always opens a whole database, and one that has the
old file open keeps it. One process folds at a time; the others wait for it, and find nothing left to do. Where nothing
has changed since the last fold, it is not repeated; where something has, only that is read.

Of a bucket there may be two files: one with views of rows, which only a fold with rows replaces, so that none of those
who have its name loses them, and one without. Each takes over what the newer of the two has read.
"""

# ruff: noqa: S608 (only our own table names enter the SQL here)

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline_tasks.core.erasure.listed import PREFIX as ERASURES
from pipeline_tasks.core.events import PREFIX as EVENTS
from pipeline_tasks.core.lineage import facts
from pipeline_tasks.core.lineage.carried import carry_over
from pipeline_tasks.core.lineage.rows import add_copied_rows, add_dataset_views, literal
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.memory import question_mib
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.store import TEMPORARY, LocalStore, Store
from pipeline_tasks.core.store.disk import space_in, writable
from pipeline_tasks.core.versions import manifest_key

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)
DATABASE = "lineage.duckdb"
_WITHOUT_ROWS = "lineage-without-rows.duckdb"
_BEFORE = ("tables.sql", "shapes.sql", "views.sql")
_AFTER = ("macros.sql",)
_VERSIONS = "SELECT dataset, version FROM versions"
_INCOMPLETE = "FROM steps WHERE status = 'unfinished' OR started_at IS NULL"
"""Runs that an event read later may say more of: copied events come in any order."""


def fold(store: Store, *, rows: bool = True) -> Path:
    """The path of a lineage database that holds everything finished before the call.

    Args:
        store: where everything is.
        rows: also make a view of each dataset's latest rows, and bring these to this machine; a folder has them anyway.

    Raises:
        InputError: the store cannot be written.
        TransientError: its disk is full.
    """
    rows = rows or isinstance(store, LocalStore)
    if found := _current(store, fingerprint(store), rows):
        return found
    with space_in(store.folder), no_other_fold(store):
        state = fingerprint(store)
        return _current(store, state, rows) or _rebuild(store, state, rows)


def unfold(store: Store) -> None:
    """Delete what was folded; the next fold reads everything."""
    for path in _databases(store):
        path.unlink(missing_ok=True)


def _databases(store: Store) -> list[Path]:
    return [store.folder / DATABASE, store.folder / _WITHOUT_ROWS]


def _current(store: Store, state: str, rows: bool) -> Path | None:
    return next((path for path in _databases(store) if _is_current(path, state, rows)), None)


def fingerprint(store: Store) -> str:
    """sha256 over the names of all events and manifests, all refs and erasures, the place and our SQL.

    Files below these folders never change once they have their name, refs apart, and what an erasure changes. A version
    that was lost may be made again under its id: when its manifest was written counts, too. Names of answers count in a
    folder alone: a bucket takes a request for each thousand, and a run that buys ends with an event.
    """
    seen = sha256(str(store.folder).encode() + _base(store).encode())
    for folder in (EVENTS, facts.RESPONSES) if isinstance(store, LocalStore) else (EVENTS,):
        for key in store.keys(folder):
            seen.update(key.encode())
    for entry in store.entries(facts.VERSIONS):
        seen.update(f"{entry.key} {entry.size_bytes} {entry.modified}".encode())
    for key, data in store.read_all(store.keys("refs")):
        seen.update(key.encode() + (data or b""))
    return seen.hexdigest()


def _base(store: Store) -> str:
    """sha256 over our SQL and all erasures: what is in a table of another base may not be so any more."""
    seen = sha256("".join(map(script, (*_BEFORE, *_AFTER))).encode())
    for key, data in store.read_all(store.keys(ERASURES)):
        seen.update(key.encode() + (data or b""))
    return seen.hexdigest()


@contextmanager
def no_other_fold(store: Store) -> Iterator[None]:
    """Wait until no process of this machine folds, and let none begin meanwhile."""
    path = store.folder / "lineage" / "fold.lock"
    with writable(f"the store {store.folder}", "check FOUNDRY_STORE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
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


def _is_current(target: Path, state: str, rows: bool) -> bool:
    import duckdb

    if not target.is_file():
        return False
    try:
        with attached(target) as con:
            found = con.execute("SELECT has_rows FROM fold_state WHERE fingerprint = ?", [state]).fetchone()
            return found is not None and (found[0] or not rows)
    except duckdb.Error as error:
        log.info("%s is folded anew: %s", target, error)
        return False


def _rebuild(store: Store, state: str, rows: bool) -> Path:
    import duckdb

    there = [path for path in _databases(store) if path.is_file()]
    newest = max(there, key=lambda path: path.stat().st_mtime_ns, default=None)
    fresh = store.folder / TEMPORARY / f"fold-{os.getpid()}.duckdb"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    for leftover in fresh.parent.glob("fold-*.duckdb*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    with duckdb.connect(str(fresh)) as con:
        con.execute(f"SET memory_limit = '{2 * question_mib()}MiB'")  # beyond that it writes beside the file
        for name in _BEFORE:
            con.execute(script(name))
        base, events, versions = _base(store), list(store.keys(EVENTS)), list(store.entries(facts.VERSIONS))
        if newest:
            carry_over(con, newest, base, events, versions)
        con.execute("BEGIN")
        _fill(con, store, events, [entry.key for entry in versions], rows)
        _insert(con, "manifests", list(map(asdict, versions)))
        now = datetime.now(UTC).replace(tzinfo=None)
        con.execute("INSERT INTO fold_state VALUES (?, ?, ?, ?)", [state, base, rows, now])
        con.execute("COMMIT")
        for name in _AFTER:
            con.execute(script(name))
        con.execute("CHECKPOINT")
    return fresh.replace(store.folder / (DATABASE if rows else _WITHOUT_ROWS))


def _fill(con: duckdb.DuckDBPyConnection, store: Store, events: list[str], versions: list[str], rows: bool) -> None:
    """Read what is not in the tables yet, and say of all what follows from refs and runs together."""
    problems: facts.Rows = []
    read = {key for (key,) in con.execute("FROM events").fetchall()}
    known = {manifest_key(Ref(dataset=d, version=v)) for d, v in con.execute(_VERSIONS).fetchall()}
    answers = {name for (name,) in con.execute("SELECT response_id FROM llm_calls").fetchall()}
    paid = {sha for (sha,) in con.execute("SELECT DISTINCT sha256 FROM part_responses").fetchall()}
    runs = {row["run_id"]: row for row in con.sql(_INCOMPLETE).to_arrow_table().to_pylist()}
    tables = facts.event_rows(store, [key for key in events if key not in read], runs, problems)
    found = facts.manifests(store, [key for key in versions if key not in known], problems)
    tables |= {"steps": list(runs.values())}
    tables["llm_calls"] = facts.response_rows(store, answers, problems)
    tables["part_responses"] = facts.receipt_rows(store, paid, problems)
    con.execute(f"DELETE {_INCOMPLETE}")
    for name, new in (tables | facts.version_rows(store, found)).items():
        _insert(con, name, new)
    con.execute(facts.CREATED)
    latest = {manifest_key(Ref(dataset=d, version=v)) for d, v in facts.latest_ids(store).items()}
    con.execute("UPDATE versions SET is_latest = 'versions/' || dataset || '/' || version || '.json' IN ?", [[*latest]])
    add_copied_rows(con, store, found, problems)
    shown = [m for m in found if rows and manifest_key(m.ref) in latest]
    shown += facts.manifests(store, sorted(latest & known) if rows else [], problems)
    add_dataset_views(con, store, sorted(shown, key=lambda m: m.dataset), problems)
    _insert(con, "problems", problems)
    for problem in problems:
        log.warning("lineage: %s: %s", problem["key"], problem["problem"])


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: facts.Rows) -> None:
    schema = con.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
    batch = pa.Table.from_pylist(rows, schema=schema)
    con.register("batch", batch)
    con.execute(f"INSERT INTO {table} SELECT * FROM batch")
    con.unregister("batch")
