"""Actors of a Ray cluster, each with the processor, cards and memory that the step declares.

What an actor makes of an item is in the store when it is done, and only its name comes back: so the store is a bucket,
or a folder that all nodes share, and nothing of size is in Ray's object store. What a lost actor or node worked on is
done by another, which finds what others have made.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from pipeline_tasks.core.engines.actors import Actor, Actors
from pipeline_tasks.core.engines.cluster import connect
from pipeline_tasks.core.engines.heard import Lines
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.step import Resources

log = logging.getLogger(__name__)

_LOOK_S = 5.0
"""How often actors without work are looked at, where nothing else happens."""

_TIDY_S = 60.0
"""How long an actor that is to tidy up is waited for."""


class OnRay:
    """Actors on the cluster at ``address``, or on the one of this machine where that is empty.

    Args:
        address: as in ``RAY_ADDRESS``.
        name: of the step.
        needs: what one actor may take.
        environment: variables that an actor gets.
        threads: of a whole step, where the items are such: what it logs is then logged here.
    """

    def __init__(
        self, address: str, name: str, needs: Resources, environment: Mapping[str, str], threads: int = 0
    ) -> None:
        self._address, self._name, self._needs, self._environment = address, name, needs, dict(environment)
        self._threads = threads
        self._joined: tuple[Any, Actors] | None = None

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._joined:
            self._joined[0].shutdown()  # ends the actors, and what they still compute
            self._joined = None

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and result of each item, as they are done.

        What a lost actor or node worked on is tried again as often as the step may be; what was out of memory, once,
        where the step says with how much more.

        Raises:
            InputError: Ray is not installed, or no node has what the step declares, or one has another version of this
                package.
            TransientError: there is no cluster, it lost an item too often, or there was not enough memory for one.
        """
        if not items:
            return
        ray, actors = self._join()
        shared = [ray.put(work)]
        todo = {self._needs.memory_gib: deque(_Try(place, self._needs.memory_gib) for place in range(len(items)))}
        running: dict[Any, tuple[Actor, _Try]] = {}
        lines = Lines(ray, wanted=self._threads > 0)
        try:
            while running or any(todo.values()):
                for memory_gib, tries in todo.items():
                    while tries and (free := actors.take(memory_gib)):
                        one = tries.popleft()
                        running[free.handle.compute.remote(shared, items[one.place])] = free, one
                        lines.follow(free)
                actors.suit({memory_gib: len(tries) for memory_gib, tries in todo.items()})
                done, _ = ray.wait([*running, *actors.starting, *lines.asked], num_returns=1, timeout=_LOOK_S)
                for ref in done:
                    if ref in lines.asked:
                        lines.tell(ref)
                        continue
                    if ref in actors.starting:
                        actors.begun(ref)
                        continue
                    actor, one = running.pop(ref)
                    lines.finish(actor)
                    found, following = self._ended(ray, ref, one)
                    if following:
                        actors.lost(actor)
                        todo.setdefault(following.memory_gib, deque()).appendleft(following)
                    else:
                        actors.give_back(actor)
                        yield one.place, found
        finally:
            if self._joined:
                for actor, _ in running.values():
                    actors.end(actor)

    def tidy(self, work: Callable[[Any], Any], item: Any) -> None:
        """Call ``work`` in an actor that is there and has nothing to do; none is started for it.

        Raises:
            TransientError: there is none, or it failed.
        """
        ray, actors = self._join()
        free = actors.free()
        if not free:
            raise TransientError(f"no process of {self._name} is left on the Ray cluster")
        try:
            ray.get(free.handle.compute.remote([ray.put(work)], item), timeout=_TIDY_S)
        except ray.exceptions.RayError as error:
            raise TransientError(f"a process of {self._name} on the Ray cluster did not tidy up: {error}") from error

    def _join(self) -> tuple[Any, Actors]:
        if self._joined is None:
            ray = connect(self._address, self._environment)
            self._joined = ray, Actors(ray, self._name, self._needs, self._threads)
        return self._joined

    def _ended(self, ray: Any, ref: Any, one: _Try) -> tuple[Any, _Try | None]:
        """What came of a try, or the try after it."""
        try:
            return ray.get(ref), None
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.OutOfMemoryError as error:
            return None, self._with_more(one, error)
        except _lost(ray) as error:
            return None, self._once_more(one, error)

    def _with_more(self, one: _Try, error: Exception) -> _Try:
        """The try after one that was out of memory."""
        had, more = self._needs.memory_gib, self._needs.more_memory_gib
        if more is None or one.memory_gib == more:
            told = f"{had:g} GiB and then {more:g} GiB" if more else f"{had:g} GiB"
            name = "more_memory_gib" if more else "memory_gib, or more_memory_gib for one more try,"
            raise TransientError(
                f"a task of {self._name} was out of memory, with {told} declared; give it more ({name} of "
                f"[{self._name}] in FOUNDRY_RESOURCES), or let its parameters hold less: {error}"
            ) from error
        log.warning("a task of %s was out of memory with %g GiB; it runs once more with %g GiB", self._name, had, more)
        return replace(one, memory_gib=more)

    def _once_more(self, one: _Try, error: Exception) -> _Try:
        """The try after one whose actor or node was lost."""
        if one.lost == self._needs.retries:
            raise TransientError(f"the Ray cluster lost a task of {self._name}; run it again: {error}") from error
        log.warning("the Ray cluster lost a task of %s; it runs again: %s", self._name, str(error).split("\n")[0])
        return replace(one, lost=one.lost + 1)


@dataclass(frozen=True)
class _Try:
    """One try of one item: with how much memory it runs, and how often it was lost before."""

    place: int
    memory_gib: float
    lost: int = 0


def _lost(ray: Any) -> tuple[type[Exception], ...]:
    lost = ray.exceptions
    return lost.RaySystemError, lost.RayActorError, lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError
