"""Calls of a function on hostile input, each in a worker process that is killed when it takes too long or dies."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from pipeline_tasks.corpus.pdf_text import Unreadable

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pymupdf"])


def run_limited(
    function: Callable[[bytes], Any], items: Sequence[bytes], *, processes: int, time_limit_s: float
) -> Iterator[Any]:
    """``function`` of every item, in order; :class:`Unreadable` for those that took too long or killed their worker.

    Args:
        function: a module-level function.
        items: the inputs.
        processes: workers at once; none is started for no items.
        time_limit_s: seconds one call may take before its worker is killed and replaced.
    """
    results: dict[int, Any] = {}
    pending = list(range(len(items)))[::-1]
    crew = [_Worker(function) for _ in range(min(processes, len(items)))]
    handed_out = 0
    try:
        while handed_out < len(items):
            for worker in crew:
                if worker.task is None and pending:
                    worker.give(pending.pop(), items)
            results.update(_collect(crew, time_limit_s))
            while handed_out in results:
                yield results.pop(handed_out)
                handed_out += 1
    finally:
        for worker in crew:
            worker.stop()


def _collect(crew: list[_Worker], time_limit_s: float) -> dict[int, Any]:
    busy = [worker for worker in crew if worker.task is not None]
    nearest = min(worker.started + time_limit_s for worker in busy) - time.monotonic()
    ready = wait([worker.pipe for worker in busy], timeout=max(0.0, nearest))
    found: dict[int, Any] = {}
    for worker in busy:
        task = worker.task
        if task is None:
            continue
        if worker.pipe in ready:
            found[task] = worker.receive()
        elif time.monotonic() - worker.started >= time_limit_s:
            found[task] = Unreadable("timeout", f"took more than {time_limit_s:g} s")
            worker.replace()
    return found


class _Worker:
    def __init__(self, function: Callable[[bytes], Any]) -> None:
        self._function = function
        self.task: int | None = None
        self.started = 0.0
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self._process: BaseProcess = _CONTEXT.Process(target=_serve, args=(self._function, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, task: int, items: Sequence[bytes]) -> None:
        self.task, self.started = task, time.monotonic()
        try:
            self.pipe.send(items[task])
        except (BrokenPipeError, ConnectionResetError):
            self.replace()
            self.give(task, items)

    def receive(self) -> Any:
        self.task = None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            self.replace()
            return Unreadable("crashed", f"the reader ended with exit code {code}")

    def replace(self) -> None:
        self.stop()
        self.task = None
        self._start()

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(function: Callable[[bytes], Any], pipe: Connection) -> None:
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        pipe.send(function(item))
