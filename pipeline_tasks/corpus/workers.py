"""Calls of a function on hostile input, each in a worker process with a limit of time and of memory.

Memory is limited by RLIMIT_AS, set by the worker itself above what it holds after loading its libraries: an allocation
beyond it fails at once, inside the call that asks for it, so the cap holds between two looks of any watcher, and the
library can often still say what happened. The parent kills what takes too long, and looks at how a dead worker died.
An item for which a used worker has no memory left is tried again in a fresh one: others may have left too little.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pipeline_tasks.corpus.pdf.model import Unreadable

_LIBRARIES = "pipeline_tasks.corpus.pdf.preload"
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([_LIBRARIES])
_NEAR_LIMIT = 0.9
_LOOK_S = 0.2


@dataclass(frozen=True)
class Limits:
    """What one call may take.

    Attributes:
        time_s: seconds before its worker is killed and replaced.
        memory_mib: MiB of address space beyond what a fresh worker has.
    """

    time_s: float
    memory_mib: int = 1024


def run_limited(
    function: Callable[[bytes], Any], items: Sequence[bytes], processes: int, limits: Limits
) -> Iterator[Any]:
    """``function`` of every item, in order; :class:`Unreadable` for those that broke a limit or killed their worker.

    Reasons: ``timeout``, ``memory``, ``crashed``.

    Args:
        function: a module-level function, or a partial of one.
        items: the inputs.
        processes: workers at once; none is started for no items.
        limits: of time and memory for each call.
    """
    results: dict[int, Any] = {}
    pending = list(range(len(items)))[::-1]
    crew = [_Worker(function, limits) for _ in range(min(processes, len(items)))]
    handed_out = 0
    try:
        while handed_out < len(items):
            for worker in crew:
                if worker.task is None and pending:
                    worker.give(pending.pop(), items)
            results.update(_collect(crew, items))
            while handed_out in results:
                yield results.pop(handed_out)
                handed_out += 1
    finally:
        for worker in crew:
            worker.stop()


def _collect(crew: list[_Worker], items: Sequence[bytes]) -> dict[int, Any]:
    busy = [worker for worker in crew if worker.task is not None]
    ready = wait([worker.pipe for worker in busy], timeout=_LOOK_S)
    found: dict[int, Any] = {}
    for worker in busy:
        task = worker.task
        if task is None:
            continue
        if worker.pipe in ready:
            used, result = worker.used, worker.receive()
            if isinstance(result, Unreadable) and result.reason == "memory":
                worker.replace()
                if used:  # earlier items may have left too little
                    worker.give(task, items)
                    continue
            found[task] = result
        elif worker.late():
            found[task] = Unreadable("timeout", f"took more than {worker.limits.time_s:g} s")
            worker.replace()
        else:
            worker.look()
    return found


class _Worker:
    def __init__(self, function: Callable[[bytes], Any], limits: Limits) -> None:
        self._function = function
        self.limits = limits
        self.task: int | None = None
        self.used = False
        self._started = 0.0
        self._start()

    def _start(self) -> None:
        self._peak_share, self.used = 0.0, False
        self.pipe, theirs = _CONTEXT.Pipe()
        arguments = (self._function, theirs, self.limits.memory_mib)
        self._process: BaseProcess = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def give(self, task: int, items: Sequence[bytes]) -> None:
        self.task, self._started = task, time.monotonic()
        try:
            self.pipe.send(items[task])
        except (BrokenPipeError, ConnectionResetError):
            self.replace()
            self.give(task, items)

    def late(self) -> bool:
        return time.monotonic() - self._started >= self.limits.time_s

    def look(self) -> None:
        """Remember how near to its limit the worker has been, should it die of it without a word."""
        with suppress(OSError, ValueError, StopIteration):
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace")
            peak = next(line for line in status.splitlines() if line.startswith("VmPeak"))
            limit, _ = resource.prlimit(self._process.pid or 0, resource.RLIMIT_AS)
            if limit != resource.RLIM_INFINITY:
                self._peak_share = int(peak.split()[1]) * 1024 / limit

    def receive(self) -> Any:
        self.task, self.used = None, True
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code, near = self._process.exitcode, self._peak_share > _NEAR_LIMIT
            self.replace()
            if near:
                return Unreadable("memory", f"needs more than {self.limits.memory_mib} MiB")
            return Unreadable("crashed", f"the reader ended with exit code {code}")

    def replace(self) -> None:
        self.stop()
        self.task = None
        self._start()

    def stop(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(function: Callable[[bytes], Any], pipe: Connection, memory_mib: int) -> None:
    os.setsid()
    import_module(_LIBRARIES)  # a server that was running for somebody else has not loaded them
    _limit_memory(memory_mib)
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            result = function(item)
        except MemoryError:
            result = Unreadable("memory", f"needs more than {memory_mib} MiB")
        except Exception as error:  # whatever a hostile file provokes is its own reject, and the next file is read
            result = Unreadable("crashed", f"{type(error).__name__}: {error}"[:500])
        pipe.send(result)


def _limit_memory(memory_mib: int) -> None:
    """Let this process grow by ``memory_mib`` from here on; no core file is written where that ends it."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (memory_mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
