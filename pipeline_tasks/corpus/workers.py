"""Calls of a function on hostile input, each in a worker process with limits that do not depend on who else works here.

Time is the processor's. The worker says what an item took, and what took too much is refused even if it was done. The
parent kills a worker that has used too much, and looks no more often than that can have happened. The clock on the wall
only tells that a worker is stuck, which says nothing about the item: the caller is asked to try again.

Memory is limited by RLIMIT_AS, set by the worker itself above what it holds after loading its libraries: an allocation
beyond it fails at once, inside the call that asks for it, and the library can often still say what happened.
An item that ended a used worker is tried again in a fresh one: what others left behind is not its fault. One whose
worker the system killed, for want of memory as a rule, is tried again alone, once all others have ended. Where that
ends the same well within the limit, it says nothing about the item either: the machine is full or too small.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.corpus.pdf.model import Unreadable
from pipeline_tasks.corpus.worker_processes import End, WorkerProcess

_NEAR_LIMIT = 0.9
_LEAST_LOOK_S = 0.2
_OWN_CLOCK_S = 0.1  # the worker's own clock is finer and decides what is this near to the limit
_CORES = os.cpu_count() or 1
_FROM_OUTSIDE = {-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}
_NOTHING_YET = object()


@dataclass(frozen=True)
class _Killed:
    """The system killed the reader of the item ``name`` when it held ``grown_mib`` beyond what it began with."""

    name: str
    grown_mib: float


@dataclass(frozen=True)
class Limits:
    """What one call may take.

    Attributes:
        cpu_s: seconds of processor time, of the worker and of what it starts.
        memory_mib: MiB of address space beyond what a fresh worker has.
        patience: a worker that is at one item for this many times ``cpu_s`` on the clock is stuck.
    """

    cpu_s: float
    memory_mib: int = 1024
    patience: float = 60.0

    @property
    def wall_s(self) -> float:
        """Seconds on the clock after which a worker is stuck."""
        return self.cpu_s * self.patience


def run_limited(
    function: Callable[[bytes], Any], items: Sequence[bytes], processes: int, limits: Limits, names: Sequence[str] = ()
) -> Iterator[Any]:
    """``function`` of every item, in order; :class:`Unreadable` for those that broke a limit or ended their worker.

    Reasons: ``timeout``, ``memory``, ``crashed``.

    Args:
        function: a module-level function, or a partial of one; it gives a result of the PDF model, or a text.
        items: the inputs.
        processes: workers at once; none is started for no items.
        limits: of time and memory for each call.
        names: of the items, for messages.

    Raises:
        TransientError: a worker is stuck, was told from outside to end, or killed well within its memory; try again.
    """
    results: dict[int, Any] = {}
    order = _Order(len(items))
    crew: list[_Worker] = []
    handed_out = 0
    try:
        for _ in range(min(processes, len(items))):
            crew.append(_Worker(function, limits))
        while handed_out < len(items):
            for worker in crew:
                task = order.next(crew) if worker.task is None else None
                if task is not None:
                    worker.give(task, items[task], names[task] if names else f"item {task}")
            found = {task: order.ended(task, result, limits) for task, result in _collect(crew).items()}
            results.update({task: result for task, result in found.items() if result is not _NOTHING_YET})
            while handed_out in results:
                yield results.pop(handed_out)
                handed_out += 1
    finally:
        for worker in crew:
            worker.stop()


class _Order:
    """Which item is next: one after the other, but one whose worker was killed when no other has any."""

    def __init__(self, n: int) -> None:
        self._left = list(range(n))[::-1]
        self._killed: list[int] = []
        self._alone: int | None = None

    def next(self, crew: list[_Worker]) -> int | None:
        """The next item for one of ``crew``; None where it has to wait for the others, or there is none."""
        if not self._killed and self._alone is None:
            return self._left.pop() if self._left else None
        if self._alone is not None or any(worker.task is not None for worker in crew):
            return None
        for worker in crew:
            worker.refresh()
        self._alone = self._killed.pop()
        return self._alone

    def ended(self, task: int, result: Any, limits: Limits) -> Any:
        """What ``task`` came to; :data:`_NOTHING_YET` where it is tried again.

        Raises:
            TransientError: the system killed its reader, also alone, well within the limit, which others decide.
        """
        was_alone = task == self._alone
        if was_alone:
            self._alone = None
        if not isinstance(result, _Killed):
            return result
        if not was_alone:
            self._killed.append(task)
            return _NOTHING_YET
        if result.grown_mib > _NEAR_LIMIT * limits.memory_mib:
            return Unreadable("memory", f"the system killed its reader, also alone, near {limits.memory_mib} MiB")
        raise TransientError(
            f"{result.name}: the system killed its reader, also alone, at {result.grown_mib:.0f} of the"
            f" {limits.memory_mib} MiB that it may take: the machine is full, or has less; try again, and if it happens"
            " again give the step more memory, or a lower memory_limit_mib, or leave the file out"
        )


def _collect(crew: list[_Worker]) -> dict[int, Any]:
    """Results by task, after a wait for the first of them or for the time to look at a worker."""
    busy = {worker.task: worker for worker in crew if worker.task is not None}
    patience_s = min(worker.look_at for worker in busy.values()) - time.monotonic()
    ready = wait([worker.process.talk for worker in busy.values()], timeout=max(0.0, patience_s))
    found = {}
    for task, worker in busy.items():
        result = worker.receive() if worker.process.talk in ready else worker.look()
        if result is not _NOTHING_YET:
            found[task] = result
    return found


class _Worker:
    """A process at one item after the other, replaced where an item ended it; ``task`` is None while it has none."""

    def __init__(self, function: Callable[[bytes], Any], limits: Limits) -> None:
        self._made_of = (function, limits.cpu_s, limits.memory_mib, limits.wall_s)
        self._limits = limits
        self.task: int | None = None
        self._used = False
        self.process = WorkerProcess(*self._made_of)

    def give(self, task: int, item: bytes, name: str) -> None:
        self.task, self._name, self._order = task, name, (task, item, name)
        if not self._used:
            self.process.await_confined()
        self._given, self._before_s = time.monotonic(), self.process.cpu_used_s(alone=True)
        self._plan_look(0.0)
        try:
            self.process.give(item)
        except TimeoutError as error:
            raise self._stuck() from error
        except OSError:  # it ended while it had nothing to do
            self._again()

    def receive(self) -> Any:
        """The result; :data:`_NOTHING_YET` where the item is tried again, :class:`_Killed` by the system."""
        try:
            used_s, result = self.process.answer()
        except TimeoutError as error:
            raise self._stuck() from error
        except ValueError as error:
            self.process.end()
            return self._ended(Unreadable("crashed", str(error)[:500]))
        except (EOFError, OSError):
            end = self.process.end()
            if end.code == -signal.SIGKILL:
                self._replace()
                return _Killed(self._name, end.grown_mib)
            return self._ended(self._post_mortem(end))
        if isinstance(result, Unreadable) and result.reason in ("memory", "crashed"):
            self.process.end()
            return self._ended(result)
        self.task, self._used = None, True
        return self._timeout() if used_s > self._limits.cpu_s else result

    def look(self) -> Any:
        """The refusal of an item that takes too much; :data:`_NOTHING_YET` while it may go on.

        Raises:
            TransientError: it takes next to nothing, for too long.
        """
        now = time.monotonic()
        if now < self.look_at:
            return _NOTHING_YET
        used_s = self.process.cpu_used_s() - self._before_s
        if used_s > self._limits.cpu_s + _OWN_CLOCK_S:
            self.process.end()
            self._replace()
            return self._timeout()
        if now - self._given >= self._limits.wall_s:
            raise self._stuck()
        self._plan_look(used_s)
        return _NOTHING_YET

    def refresh(self) -> None:
        """Give back what earlier items left behind."""
        if self._used:
            self.stop()
            self._replace()

    def stop(self) -> None:
        with suppress(TransientError):
            self.process.end()

    def _plan_look(self, used_s: float) -> None:
        """Look again when the item can have used up its time, if it keeps every core busy."""
        wait_s = max(_LEAST_LOOK_S, (self._limits.cpu_s - used_s) / _CORES)
        self.look_at = min(time.monotonic() + wait_s, self._given + self._limits.wall_s)

    def _ended(self, result: Unreadable) -> Any:
        """What an item came to whose worker has ended; nothing yet where that may be the fault of those before it."""
        if self._used and result.reason in ("memory", "crashed"):
            self._again()
            return _NOTHING_YET
        self._replace()
        return result

    def _again(self) -> None:
        self.stop()
        self._replace()
        self.give(*self._order)

    def _replace(self) -> None:
        self.task, self._used = None, False
        self.process = WorkerProcess(*self._made_of)

    def _post_mortem(self, end: End) -> Unreadable:
        if end.code == -signal.SIGXCPU:
            return self._timeout()
        if end.code in _FROM_OUTSIDE:
            raise TransientError(
                f"{self._name}: its reader was told from outside to end (signal {-end.code}); try again"
            )
        if end.grown_mib > _NEAR_LIMIT * self._limits.memory_mib:
            return Unreadable("memory", f"needs more than {self._limits.memory_mib} MiB")
        return Unreadable("crashed", f"the reader ended with exit code {end.code}")

    def _timeout(self) -> Unreadable:
        return Unreadable("timeout", f"took more than {self._limits.cpu_s:g} s of processor time")

    def _stuck(self) -> TransientError:
        return TransientError(
            f"{self._name}: its reader has been at it for {self._limits.wall_s:g} s on the clock and has not used"
            f" {self._limits.cpu_s:g} s of processor time: the machine is too busy, or the reader waits for something;"
            " try again, and if it happens again use another engine or leave the file out"
        )
