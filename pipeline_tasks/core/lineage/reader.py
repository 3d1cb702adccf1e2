"""Many questions to one store's lineage, from many threads: what a page asks with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.query import answer, bring_shown, connect
from pipeline_tasks.core.store import Store

Rows = list[dict[str, Any]]
Ask = Callable[..., Rows]
_TIMEOUT_S = 30.0


class Reader:
    """Our own questions to the lineage of ``store``; it is looked at for changes every ``fresh_s`` seconds.

    Thread-safe; ``at_once`` blocks of questions are answered side by side, so that their memory has a bound. What a
    visitor writes is no question of ours: see :mod:`pipeline_tasks.core.lineage.sandbox`.
    """

    def __init__(self, store: Store, fresh_s: float = 2.0, at_once: int = 2) -> None:
        self.store = store
        self.objects = store.folder / "objects"
        self._fresh_s = fresh_s
        self._turn = threading.Lock()
        self._slots = threading.BoundedSemaphore(at_once)
        self._folded: tuple[float, Path] | None = None

    def database(self) -> Path:
        """The lineage database, at most ``fresh_s`` seconds old.

        Raises:
            InputError: the store cannot be written.
        """
        with self._turn:
            if self._folded is None or time.monotonic() - self._folded[0] > self._fresh_s:
                path = fold(self.store)
                with connect(path, self.objects) as con:
                    bring_shown(self.store, con)
                self._folded = time.monotonic(), path
            return self._folded[1]

    @contextmanager
    def asking(self) -> Iterator[Ask]:
        """``ask(sql, *values)`` gives rows as dicts; all questions of one block see the same database.

        Raises:
            InputError: a question took more than half a minute.
        """
        with self._slots, connect(self.database(), self.objects) as con:

            def ask(sql: str, *values: object) -> Rows:
                return answer(con, sql, list(values), timeout_s=_TIMEOUT_S).to_pylist()

            yield ask

    def ask(self, sql: str, *values: object) -> Rows:
        """The rows of one question."""
        with self.asking() as ask:
            return ask(sql, *values)
