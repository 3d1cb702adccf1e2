"""Several nodes of a Ray cluster that do one whole step together, an actor on each: one training on many machines.

All begin at once or none does (a placement group, of which each bundle is on a node of its own). Each calls the step's
body on inputs that it reads itself, and is told its place among the others; the body's training brings them together,
and the first one's version counts. Where one is lost all are ended, and begin again from the first one's checkpoint:
the node that has it is the first one again, while it lives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from pipeline_tasks.core.engines.actors import OPTIONS, Actor, Computing, check_version, tidy_in
from pipeline_tasks.core.engines.cluster import Node, connect, has_room, nodes, reached, room_for
from pipeline_tasks.core.engines.heard import Lines
from pipeline_tasks.core.engines.left import Left, node_that_has
from pipeline_tasks.core.engines.on_ray import LOOK_S
from pipeline_tasks.core.engines.tries import Tries, Try, ends
from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.execution.team import Member
from pipeline_tasks.core.step import Resources

log = logging.getLogger(__name__)

_HARDLY = 0.001
"""Of the one unit that Ray gives each node of a resource with its address, so that room can be asked for there."""

_CAUSE_S = 60.0
"""How long the others are waited for once one has failed: it may have failed because another was lost."""


class TeamOnRay:
    """As many nodes of the cluster at ``address`` as the step needs; arguments as of a whole step on one."""

    def __init__(
        self,
        address: str,
        name: str,
        needs: Resources,
        environment: Mapping[str, str],
        threads: int,
        left: Left,
    ) -> None:
        self._address, self._name, self._needs, self._environment = address, name, needs, dict(environment)
        self._threads, self._left = threads, left
        self._ray: Any = None
        self._leader: Actor | None = None
        self._taken: dict[float, dict[str, float]] = {}

    def __enter__(self) -> TeamOnRay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._ray:
            self._ray.shutdown()  # ends the actors, and gives up their rooms
            self._ray = self._leader = None

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place of each item and what the first node made of it; one item after another.

        Raises:
            InputError: Ray is not installed, not enough nodes have what the step declares, or one has another version
                of this package.
            TransientError: there is no cluster, it lost an item too often, or there was not enough memory for one.
        """
        self._ray = self._ray or connect(self._address, self._environment)
        tries = Tries(self._ray, self._name, self._needs)
        with reached(self._ray, self._name):
            shared = [self._ray.put(work)]
            for place, item in enumerate(items):
                yield place, self._made(shared, item, tries, tries.first(place))

    def tidy(self, work: Callable[[Any], Any], item: Any) -> None:
        """Call ``work`` on the node that made the last item.

        Raises:
            TransientError: its actor is not there any more, or it failed.
        """
        tidy_in(self._ray, self._name, self._leader, work, item)

    def _made(self, work: list[Any], item: Any, tries: Tries, one: Try) -> Any:
        """What the first node made, at the first try that all of them came through."""
        while True:
            group, taken = self._reserved(item, one.memory_gib)
            try:
                team = self._begun(group, taken, one.memory_gib)
                found = self._through(work, item, team)
            except ends(self._ray) as error:
                self._ray.util.remove_placement_group(group)  # and with it the actors
                one = tries.after(error, one)
            else:
                self._leader, *others = team
                for actor in others:
                    self._ray.kill(actor.handle)
                return found

    def _reserved(self, item: Any, memory_gib: float) -> tuple[Any, dict[str, float]]:
        """Room on as many nodes as there are to be, the first one's first, and what an actor takes of it.

        The first look refuses what no nodes have; later ones wait for those that were lost to be replaced.
        """
        if memory_gib not in self._taken:
            self._taken[memory_gib] = room_for(self._ray, self._name, self._needs, memory_gib, self._threads)
        taken = self._taken[memory_gib]
        named = {"CPU": taken["num_cpus"], "GPU": taken["num_gpus"], "memory": taken["memory"]}
        while True:
            rooms = [{name: much for name, much in named.items() if much} for _ in range(self._needs.nodes)]
            first = node_that_has(self._ray, self._left, item)
            if first and has_room(first, taken):
                rooms[0][f"node:{first.name}"] = _HARDLY
            group = self._ray.util.placement_group(rooms, "STRICT_SPREAD")
            log.info("%s waits for %d nodes of the Ray cluster", self._name, self._needs.nodes)
            if self._wait_for_group(group, first):
                return group, taken
            self._ray.util.remove_placement_group(group)

    def _wait_for_group(self, group: Any, first: Node | None) -> bool:
        """Wait in Ray's queue, where an autoscaler sees it; False once the node that is to be the first is gone."""
        ready = group.ready()
        while not self._ray.wait([ready], timeout=LOOK_S)[0]:
            if first and first.id not in {node.id for node in nodes(self._ray)}:
                return False
        self._ray.get(ready)
        return True

    def _begun(self, group: Any, taken: Mapping[str, float], memory_gib: float) -> list[Actor]:
        """Actors that have begun, one in each room."""
        make = self._ray.remote(**OPTIONS, **taken)(Computing)
        rooms = [_room(group, place) for place in range(self._needs.nodes)]
        handles = [make.options(scheduling_strategy=room).remote(True) for room in rooms]
        for version, node in self._ray.get([handle.begun.remote() for handle in handles]):
            check_version(version, node)
        return [Actor(handle, memory_gib) for handle in handles]

    def _through(self, work: list[Any], item: Any, team: Sequence[Actor]) -> Any:
        """What the first node makes; all that it logs is logged here.

        Raises:
            RayError: what tells most of why one failed: others may have failed because it had.
        """
        ray, leader = self._ray, team[0]
        addresses = ray.get([actor.handle.address.remote() for actor in team])
        port = ray.get(leader.handle.listen.remote())
        parts = [
            actor.handle.compute.remote(work, item, Member(rank, len(team), addresses[rank], addresses[0], port))
            for rank, actor in enumerate(team)
        ]
        lines = Lines(ray, wanted=True)
        lines.follow(leader)
        waiting, errors, until = set(parts), list[Exception](), float("inf")
        while waiting and time.monotonic() < until:
            done, _ = ray.wait([*waiting, *lines.asked], num_returns=1, timeout=LOOK_S)
            for ref in done:
                if ref in lines.asked:
                    lines.tell(ref)
                    continue
                waiting.remove(ref)
                try:
                    ray.get(ref)
                except ends(ray) as error:
                    errors.append(error)
                    until = min(until, time.monotonic() + _CAUSE_S * self._may_follow(error))
        lines.finish(leader)
        if errors:
            raise min(errors, key=self._may_follow)
        return ray.get(parts[0])

    def _may_follow(self, error: Exception) -> bool:
        """Whether it may be of another's end: what a lost connection gives, neither a lost node nor what was meant."""
        raised = isinstance(error, self._ray.exceptions.RayTaskError)
        return raised and not isinstance(getattr(error, "cause", None), FoundryError)


def _room(group: Any, place: int) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place)
