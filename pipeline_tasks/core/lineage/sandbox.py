"""SQL written by a visitor, answered in a process of its own that may be killed, starved or crashed at no harm.

The process gets the database's name, the statement and its limits on its standard input, and an environment without any
secret. It opens no files but the store's objects (see :mod:`pipeline_tasks.core.lineage.query`) and writes none; the
kernel holds its memory and its time.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_tasks.core.errors import EXIT_RETRY, InputError, TransientError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.memory import question_mib

_CHILD = "pipeline_tasks.core.lineage.sandbox_child"
_START_S = 10.0
_TRIES = 3
"""Of a statement whose process found that a fold had replaced the database."""
_ROOT = Path(__file__).resolve().parents[3]


class Limits(BaseModel):
    """What one statement may take.

    Attributes:
        timeout_s: seconds until it is ended.
        memory_mb: MiB that DuckDB may use; the process as a whole may take some more.
        threads: processor threads.
        max_rows: rows given back.
        max_chars: characters of one value; a longer one ends with an ellipsis.
        max_bytes: all values together.
    """

    model_config = ConfigDict(frozen=True)

    timeout_s: float = 15.0
    memory_mb: int = 512
    threads: int = 2
    max_rows: int = 1000
    max_chars: int = 2000
    max_bytes: int = 4 << 20

    @classmethod
    def here(cls) -> Limits:
        """The usual ones, with less memory where this process has little."""
        usual = cls()
        return usual.model_copy(update={"memory_mb": min(usual.memory_mb, question_mib())})


class Task(BaseModel):
    """What the child process is told."""

    database: Path
    objects: Path
    sql: str
    limits: Limits


class Column(BaseModel):
    """A column of an answer and its SQL type."""

    name: str
    type: str


class Answer(BaseModel):
    """Rows for a page. Numbers that JavaScript cannot hold, and all that is no number, truth or NULL, come as text.

    ``is_cut``: there are more rows than these.
    """

    columns: list[Column] = []
    rows: list[list[Any]] = []
    is_cut: bool = False
    seconds: float = 0.0
    error: str | None = None


class Sandbox:
    """Answers visitors' statements over ``reader``'s store, so many at a time."""

    def __init__(self, reader: Reader, limits: Limits | None = None, at_once: int = 2, patience_s: float = 3.0) -> None:
        self._reader = reader
        self._limits = limits or Limits.here()
        self._slots = threading.BoundedSemaphore(at_once)
        self._patience_s = patience_s

    def ask(self, sql: str) -> Answer:
        """The answer to one SELECT.

        Raises:
            InputError: the statement was refused, failed, or went over a limit.
            TransientError: others' statements are running; try again.
        """
        database = self._reader.database()
        if not self._slots.acquire(timeout=self._patience_s):
            raise TransientError("other queries are running; try again in a few seconds")
        try:
            return self._answer(Task(database=database, objects=self._reader.objects, sql=sql, limits=self._limits))
        finally:
            self._slots.release()

    def _answer(self, task: Task) -> Answer:
        most_s = task.limits.timeout_s + _START_S
        try:
            for _ in range(_TRIES):
                child = subprocess.run(  # noqa: S603
                    [sys.executable, "-m", _CHILD],
                    input=task.model_dump_json().encode(),
                    capture_output=True,
                    cwd=_ROOT,
                    env={"LANG": "C.UTF-8"},
                    timeout=most_s,
                    check=False,
                )
                if child.returncode != EXIT_RETRY:
                    break
            else:
                raise TransientError("the lineage is being brought up to date; try again in a few seconds")
            answer = Answer.model_validate_json(child.stdout)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"the query took more than {most_s:g} s and was ended; narrow it down") from error
        except ValidationError as error:
            raise InputError(
                f"the query was ended (status {child.returncode}): it needs more than {task.limits.memory_mb} MiB of "
                f"memory or {task.limits.timeout_s:g} s; narrow it down"
            ) from error
        if answer.error is not None:
            raise InputError(answer.error)
        return answer
