"""Processes of this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import Any

from pipeline_tasks.core.errors import TransientError


class Local:
    """This process, or up to ``workers`` others, which start when there is work for two and stay for the run."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Local:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and result of each item, as they are done; what is left is not begun after an error."""
        if self._workers == 1 or len(items) < 2:
            for place, item in enumerate(items):
                yield place, work(item)
            return
        pool = self._pool = self._pool or _pool(self._workers)
        with self._lost():
            places = {pool.submit(work, item): place for place, item in enumerate(items)}
        for future in as_completed(places):
            with self._lost():
                found = future.result()
            yield places[future], found

    @contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except BrokenProcessPool as error:
            raise TransientError(
                f"a worker process was ended from outside, most often for want of memory ({self._workers} ran side by "
                "side); lower FOUNDRY_WORKERS, or what the step's parameters let one of them hold, and run again"
            ) from error

    def tidy(self, work: Callable[[Any], Any], item: Any) -> None:
        """Call ``work`` here: all processes have the same files."""
        work(item)


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=end_with_parent)


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = parent_process()

    def watch() -> None:
        if parent:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
