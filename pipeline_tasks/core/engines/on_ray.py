"""Actors of a Ray cluster, each with the processor, cards and memory that the step declares.

What an actor makes of an item is in the store when it is done, and only its name comes back: so the store is a bucket,
or a folder that all nodes share, and nothing of size is in Ray's object store. What a lost actor or node worked on is
done by another, which finds what others have made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from pipeline_tasks.core.engines.actors import Actor, Actors, tidy_in
from pipeline_tasks.core.engines.cluster import connect, reached
from pipeline_tasks.core.engines.heard import Lines
from pipeline_tasks.core.engines.left import Left, node_that_has
from pipeline_tasks.core.engines.tries import Tries, Try, ends
from pipeline_tasks.core.step import Resources

LOOK_S = 5.0
"""How often actors without work are looked at, where nothing else happens."""


class OnRay:
    """Actors on the cluster at ``address``, or on the one of this machine where that is empty.

    Args:
        address: as in ``RAY_ADDRESS``.
        name: of the step.
        needs: what one actor may take.
        environment: variables that an actor gets.
        threads: of a whole step, where the items are such: what it logs is then logged here.
        left: of a whole step, what a node has of it: it is done there, where it goes on.
    """

    def __init__(
        self,
        address: str,
        name: str,
        needs: Resources,
        environment: Mapping[str, str],
        threads: int = 0,
        left: Left | None = None,
    ) -> None:
        self._address, self._name, self._needs, self._environment = address, name, needs, dict(environment)
        self._threads, self._left = threads, left
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
        with reached(ray, self._name):
            yield from self._done(ray, actors, work, items)

    def _done(
        self, ray: Any, actors: Actors, work: Callable[[Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        shared = [ray.put(work)]
        tries = Tries(ray, self._name, self._needs)
        todo = {self._needs.memory_gib: deque(map(tries.first, range(len(items))))}
        running: dict[Any, tuple[Actor, Try]] = {}
        lines = Lines(ray, wanted=self._threads > 0)
        try:
            self._go_on(ray, actors, items[0])
            while running or any(todo.values()):
                for memory_gib, waiting in todo.items():
                    while waiting and (free := actors.take(memory_gib)):
                        one = waiting.popleft()
                        running[free.handle.compute.remote(shared, items[one.place])] = free, one
                        lines.follow(free)
                actors.suit({memory_gib: len(waiting) for memory_gib, waiting in todo.items()})
                done, _ = ray.wait([*running, *actors.starting, *lines.asked], num_returns=1, timeout=LOOK_S)
                for ref in done:
                    if ref in lines.asked:
                        lines.tell(ref)
                        continue
                    if ref in actors.starting:
                        actors.begun(ref)
                        continue
                    actor, one = running.pop(ref)
                    lines.finish(actor)
                    try:
                        found = ray.get(ref)
                    except ends(ray) as error:
                        following = tries.after(error, one)
                        actors.lost(actor)
                        self._go_on(ray, actors, items[one.place])
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
        tidy_in(ray, self._name, actors.free(), work, item)

    def _go_on(self, ray: Any, actors: Actors, item: Any) -> None:
        """Let the next actors begin where a whole step goes on."""
        actors.near = node_that_has(ray, self._left, item) if self._left else None

    def _join(self) -> tuple[Any, Actors]:
        if self._joined is None:
            ray = connect(self._address, self._environment)
            self._joined = ray, Actors(ray, self._name, self._needs, self._threads)
        return self._joined
