"""Ray actors that compute one item after another: processes that keep an encoder loaded from part to part.

Each holds the processor, the cards and the memory that the step declares, as long as there are items for it. They are
asked for a few at a time, more with each that has begun, and what no node has room for yet waits in Ray's queue: so a
step takes what is free, what other steps give back and what nodes that join bring, and an autoscaler sees the need.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from logging.handlers import QueueHandler
from queue import Empty, SimpleQueue
from typing import Any

from pipeline_tasks import __version__
from pipeline_tasks.core import lines
from pipeline_tasks.core.engines.cluster import Node, reached, room_for
from pipeline_tasks.core.engines.left import on_node
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.team import Member, PartDone, acting_as, listen
from pipeline_tasks.core.settings import tell_libraries
from pipeline_tasks.core.step import Resources

_FIRST = 4
"""Actors that are asked for before any has begun."""

_IDLE_S = 10.0
"""An actor without work is kept that long, most often for the next round of a partitioned step."""

OPTIONS = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": 2}
"""Of every actor; it tells its lines beside what it computes."""

_TIDY_S = 60.0
"""How long an actor that is to tidy up is waited for."""

_KEPT_S = 1800.0
"""Then an actor makes room for another step that may be waiting: a model that takes a minute loads for 3% of that."""


def check_version(version: str, node: str) -> None:
    """Refuse an actor that has begun on a node of another version.

    Raises:
        InputError: it is another.
    """
    if version != __version__:
        raise InputError(
            f"{node} of the Ray cluster has retriever-foundry {version}, and this is {__version__}: nodes that do not "
            "make the same of the same are not used; install one version everywhere"
        )


class Computing:
    """What runs in an actor's process.

    Args:
        tells: what it logs from now on is for :meth:`heard`.
    """

    def __init__(self, tells: bool) -> None:
        tell_libraries()
        self._work: tuple[Any, Any] = (None, None)
        self._listener: int | None = None
        self._said: SimpleQueue[logging.LogRecord] = SimpleQueue()
        if tells:
            handler = QueueHandler(self._said)
            handler.setFormatter(logging.Formatter("%(message)s"))
            lines.log_by(handler)

    def begun(self) -> tuple[str, str]:
        """Version of this package, and the node's name."""
        return __version__, socket.gethostname()

    def address(self) -> str:
        """That of the node, as the cluster knows it."""
        import ray

        return ray.util.get_node_ip_address()

    def listen(self) -> int:
        """The port of this node where the others of a team find it, from now on."""
        self._listener, port = listen(self.address())
        return port

    def compute(self, work: list[Any], item: Any, member: Member | None = None) -> Any:
        """Call the function that ``work`` refers to; it is fetched once, since it holds the step's whole inputs.

        Args:
            work: Ray's reference to it.
            item: what it is called with.
            member: the place of this node in a team; None: there is no other.
        """
        import ray

        if work[0] != self._work[0]:
            self._work = work[0], ray.get(work[0])
        if member is None:
            return self._work[1](item)
        with acting_as(replace(member, listener=self._listener)), suppress(PartDone):
            return self._work[1](item)

    def heard(self, patience_s: float) -> list[tuple[str, int, str]]:
        """Logger, level and message of what was logged meanwhile, once there is any, or when patience ends."""
        with suppress(Empty):
            found = [self._said.get(timeout=patience_s)]
            while not self._said.empty():
                found.append(self._said.get())
            return [(record.name, record.levelno, record.getMessage()) for record in found]
        return []


@dataclass(eq=False)
class Actor:
    """One of them, as the step sees it.

    Attributes:
        handle: Ray's.
        memory_gib: what it holds.
        since: when it had begun, by the monotonic clock.
        idle_since: when it was last given back.
    """

    handle: Any
    memory_gib: float
    since: float = field(default_factory=time.monotonic)
    idle_since: float = 0.0


class Actors:
    """The actors of one run of a step.

    Args:
        ray: the module, with a cluster joined.
        name: of the step.
        needs: what one actor may take.
        threads: of a whole step that an actor does: it has as many processors, where a node does, and tells its lines.

    Attributes:
        starting: those that have not begun yet, by Ray's reference.
        near: the node where they are to begin while it lives; None: wherever there is room.
    """

    def __init__(self, ray: Any, name: str, needs: Resources, threads: int = 0) -> None:
        self._ray, self._name, self._needs, self._threads = ray, name, needs, threads
        self._options: dict[float, dict[str, Any]] = {}
        self._free: list[Actor] = []
        self._held: Counter[float] = Counter()
        self._failed = 0
        self.starting: dict[Any, Actor] = {}
        self.near: Node | None = None

    def take(self, memory_gib: float) -> Actor | None:
        """A free actor with that much memory."""
        found = next((actor for actor in self._free if actor.memory_gib == memory_gib), None)
        if found:
            self._free.remove(found)
        return found

    def free(self) -> Actor | None:
        """The one that was given back last, whatever its memory; it stays free."""
        return max(self._free, key=lambda actor: actor.idle_since, default=None)

    def give_back(self, actor: Actor) -> None:
        """It is free; one that has been kept for long is ended, and another asked for where there is work.

        That of a whole step is kept to its end, since it has files of its own.
        """
        now = time.monotonic()
        if now - actor.since > _KEPT_S and not self._threads:
            self.end(actor)
        else:
            actor.idle_since = now
            self._free.append(actor)

    def begun(self, ref: Any) -> None:
        """Look at one of ``starting`` that Ray is done with.

        Raises:
            InputError: its node has another version of this package.
            TransientError: actors do not start.
        """
        actor = self.starting.pop(ref)
        try:
            version, node = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._failed += 1
            if self._failed > self._needs.retries:
                raise TransientError(f"the Ray cluster starts no process for {self._name}: {error}") from error
            return
        check_version(version, node)
        self._failed = 0
        self._held[actor.memory_gib] += 1
        actor.since = actor.idle_since = time.monotonic()
        self._free.append(actor)

    def suit(self, todo: Mapping[float, int]) -> None:
        """Ask for actors, and end those that are not needed.

        Args:
            todo: GiB of memory -> items that wait for an actor with so much.

        Raises:
            InputError: no node has what the step declares.
        """
        for memory_gib in {actor.memory_gib for actor in self.starting.values()} | set(todo):
            n_waiting = todo.get(memory_gib, 0)
            starting = [ref for ref, actor in self.starting.items() if actor.memory_gib == memory_gib]
            for ref in starting[n_waiting:]:
                self._kill(self.starting.pop(ref))
            for _ in range(min(n_waiting, max(_FIRST, self._held[memory_gib])) - len(starting)):
                self._start(memory_gib)
        longest = 0 if self.starting else _IDLE_S  # what is asked for may need the room of an idle one
        for actor in [actor for actor in self._free if time.monotonic() - actor.idle_since >= longest]:
            self._free.remove(actor)
            self.end(actor)

    def end(self, actor: Actor) -> None:
        """It had begun, and is not needed."""
        self._held[actor.memory_gib] -= 1
        self._kill(actor)

    def lost(self, actor: Actor) -> None:
        """It is gone, and with it may be, on the same node, those that had no work: an item would try one by one."""
        for one in (actor, *self._free):
            self.end(one)
        self._free.clear()

    def _kill(self, actor: Actor) -> None:
        self._ray.kill(actor.handle)

    def _start(self, memory_gib: float) -> None:
        if memory_gib not in self._options:
            self._options[memory_gib] = room_for(self._ray, self._name, self._needs, memory_gib, self._threads)
        near = {"scheduling_strategy": on_node(self.near, soft=True)} if self.near else {}
        handle = self._ray.remote(**OPTIONS, **self._options[memory_gib], **near)(Computing).remote(self._threads > 0)
        self.starting[handle.begun.remote()] = Actor(handle, memory_gib)


def tidy_in(ray: Any, name: str, actor: Actor | None, work: Callable[[Any], Any], item: Any) -> None:
    """Call ``work`` in an actor that is there and has nothing to do.

    Raises:
        TransientError: there is none, or it failed.
    """
    if not actor:
        raise TransientError(f"no process of {name} is left on the Ray cluster")
    with reached(ray, name):
        try:
            ray.get(actor.handle.compute.remote([ray.put(work)], item), timeout=_TIDY_S)
        except ray.exceptions.RayError as error:
            raise TransientError(f"a process of {name} on the Ray cluster did not tidy up: {error}") from error
