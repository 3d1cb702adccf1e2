"""The process that answers one visitor's statement: a task as JSON on its input, an answer as JSON on its output."""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # noqa: F401  (before the memory is limited)

from pipeline_tasks.core.confine import confine, files, own_code
from pipeline_tasks.core.errors import EXIT_RETRY, InputError
from pipeline_tasks.core.lineage.query import connect, run_select
from pipeline_tasks.core.lineage.sandbox import Answer, Column, Limits, Task

if TYPE_CHECKING:
    import duckdb

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_AS_THEY_ARE = _INTEGERS | {"BOOLEAN", "FLOAT", "DOUBLE"}
_EXACT = 1 << 53
_MOST_CHARS = 2000
"""Of an error, a column's name and its type: a statement makes each as long as it likes."""
_SPARE_BYTES = 512 << 20
_OWN_MEMORY = tuple(map(Path, ("/proc/self/statm", "/proc/self/cgroup", "/sys/fs/cgroup")))
"""Where this process and DuckDB read how much memory there is."""


def confine_to(*readable: Path) -> None:
    """Let the kernel refuse this process sockets, writing, and files but Python's own and what is ``readable``.

    Without Landlock files are left to others. It holds the thread that asks for it and those begun later.
    """
    confine(readable=None)
    files.restrict((*own_code(), *_OWN_MEMORY, *readable))


def end_beyond(limits: Limits) -> None:
    """Let the kernel end this process before it harms others: memory beside what it has, processor time, time."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory = used + (limits.memory_mb << 20) + _SPARE_BYTES
    seconds = math.ceil(limits.timeout_s) + 2
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds * limits.threads, seconds * limits.threads))
    signal.alarm(seconds)
    os.nice(5)


def answer(con: duckdb.DuckDBPyConnection, sql: str, limits: Limits) -> Answer:
    """The first rows of the answer to ``sql``.

    Raises:
        InputError: see :func:`pipeline_tasks.core.lineage.query.query`.
    """
    started = time.monotonic()
    with run_select(con, sql, None, limits.timeout_s) as relation:
        types = [str(kind) for kind in relation.types]
        columns = [Column(name=_cut(n), type=_cut(kind)) for n, kind in zip(relation.columns, types, strict=True)]
        if sum(len(column.name) + len(column.type) for column in columns) > limits.max_bytes:
            raise InputError(f"the names and types of {len(columns):,} columns are too long; select fewer")
        shown = relation.project(", ".join(_shown(i, kind, limits) for i, kind in enumerate(types, start=1)))
        rows = shown.limit(limits.max_rows + 1).fetchall()
    kept, size = [], 0
    for row in rows[: limits.max_rows]:
        size += sum(len(value) if isinstance(value, str) else 8 for value in row)
        if size > limits.max_bytes:
            break
        kept.append([_plain(value, limits.max_chars) for value in row])
    seconds = round(time.monotonic() - started, 3)
    return Answer(columns=columns, rows=kept, is_cut=len(kept) < len(rows), seconds=seconds)


def _shown(index: int, kind: str, limits: Limits) -> str:
    return f"#{index}" if kind in _AS_THEY_ARE else f"left(CAST(#{index} AS VARCHAR), {limits.max_chars + 1})"


def _plain(value: Any, max_chars: int) -> Any:
    if isinstance(value, str):
        return _cut(value, max_chars)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) and abs(value) > _EXACT else value


def _cut(text: str, max_chars: int = _MOST_CHARS) -> str:
    return text if len(text) <= max_chars else text[:max_chars] + "…"


def _answered(con: duckdb.DuckDBPyConnection, task: Task) -> Answer:
    import duckdb

    try:
        return answer(con, task.sql, task.limits)
    except InputError as error:
        return Answer(error=_cut(str(error)))
    except (MemoryError, duckdb.Error):
        return Answer(error=f"the query needs more than {task.limits.memory_mb} MiB of memory; narrow it down")


def main() -> None:
    """Read the task, confine this process, answer; end with 75 where the database was replaced before it was open."""
    import duckdb

    task = Task.model_validate_json(sys.stdin.buffer.read())
    confine_to(task.database, task.objects)  # before DuckDB begins threads
    try:
        with connect(task.database, task.objects, memory_mib=task.limits.memory_mb, threads=task.limits.threads) as con:
            end_beyond(task.limits)
            found = _answered(con, task)
    except duckdb.IOException:  # the kernel holds the file that had this name
        sys.exit(EXIT_RETRY)
    sys.stdout.write(found.model_dump_json())


if __name__ == "__main__":
    main()
