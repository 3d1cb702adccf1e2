"""Many questions to one store's lineage, from many threads: what a page asks with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.query import ALL_ROWS, answer, bring_shown, connect
from pipeline_tasks.core.store import Store

Rows = list[dict[str, Any]]
Ask = Callable[..., Rows]
_TIMEOUT_S = 30.0


class Reader:
    """Our own questions to the lineage of ``store``; it is looked at for changes every ``fresh_s`` seconds.

    Thread-safe; ``at_once`` blocks of questions are answered side by side, so that their memory has a bound. Others
    wait ``patience_s`` at each door and are sent away then: who waits holds a thread that a server needs.
    What a visitor writes is no question of ours: see :mod:`pipeline_tasks.core.lineage.sandbox`.
    """

    def __init__(self, store: Store, fresh_s: float = 2.0, at_once: int = 2, patience_s: float = 3.0) -> None:
        self.store = store
        self.objects = store.folder / "objects"
        self._fresh_s, self._patience_s = fresh_s, patience_s
        self._turns = {rows: threading.Lock() for rows in (True, False)}
        self._slots = threading.BoundedSemaphore(at_once)
        self._folded: dict[bool, tuple[float, Path]] = {}

    def database(self, *, rows: bool = True, fresh: bool = False) -> Path:
        """The lineage database, at most ``fresh_s`` seconds old; see :meth:`asking`.

        Raises:
            InputError: the store cannot be written.
            TransientError: another thread is still bringing it up to date.
        """
        with self._having(self._turns[rows], "the lineage is being brought up to date"):
            if fresh or rows not in self._folded or time.monotonic() - self._folded[rows][0] > self._fresh_s:
                path = fold(self.store, rows=rows)
                if rows:
                    with connect(path, self.objects) as con:
                        bring_shown(self.store, con)
                self._folded[rows] = time.monotonic(), path
            return self._folded[rows][1]

    @contextmanager
    def asking(self, *, rows: bool = True, fresh: bool = False) -> Iterator[Ask]:
        """``ask(sql, *values)`` gives rows as dicts; all questions of one block see the same database.

        Args:
            rows: whether they may read the latest rows of datasets, which are brought to this machine for that.
            fresh: whether they must see what was finished in the last ``fresh_s`` seconds, too.

        Raises:
            InputError: a question took more than half a minute.
            TransientError: others' questions are being answered.
        """
        while True:
            path = self.database(rows=rows, fresh=fresh)  # who waits until rows are brought takes no slot
            with self._having(self._slots, "other questions are being answered"):
                if path.is_file():
                    with connect(path, self.objects) as con:
                        yield partial(_rows_of, con)
                        return
            fresh = True  # an erasure or `foundry fold --anew` deleted it meanwhile

    def ask(self, sql: str, *values: object, rows: bool = True) -> Rows:
        """The rows of one question; see :meth:`asking`."""
        with self.asking(rows=rows) as ask:
            return ask(sql, *values)

    @contextmanager
    def _having(self, door: threading.Lock | threading.Semaphore, why: str) -> Iterator[None]:
        if not door.acquire(timeout=self._patience_s):
            raise TransientError(f"{why}; try again in a few seconds")
        try:
            yield
        finally:
            door.release()


def _rows_of(con: duckdb.DuckDBPyConnection, sql: str, *values: object) -> Rows:
    return answer(con, sql, list(values), max_rows=ALL_ROWS, timeout_s=_TIMEOUT_S).to_pylist()
