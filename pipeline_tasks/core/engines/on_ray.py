"""Tasks of a Ray cluster, each with the processors, cards and memory that the step declares.

What a task makes is in the store when it ends, and only its name comes back: so the store is a bucket, or a folder that
all nodes share, and nothing of size is in Ray's object store. A task whose worker or node is lost runs again elsewhere,
and finds what others have made. Ray keeps worker processes, and with them an encoder that a task has loaded.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from socket import create_connection
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.step import Resources

log = logging.getLogger(__name__)

_WAITING = 1000
"""Tasks handed over at a time: enough for any cluster of ours, and few beside those that a corpus can have."""

_PATIENCE_S = 10.0


class OnRay:
    """Tasks on the cluster at ``address``, or on the one of this machine where that is empty.

    Args:
        address: as in ``RAY_ADDRESS``.
        name: of the step.
        needs: what one task may take.
        environment: variables that a task gets.
    """

    def __init__(self, address: str, name: str, needs: Resources, environment: Mapping[str, str]) -> None:
        self._address, self._name, self._needs, self._environment = address, name, needs, dict(environment)
        self._connected = False

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._connected:
            _ray().shutdown()  # ends what still runs of this step

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and result of each item, as they are done.

        What a lost worker or node worked on is tried again as often as the step may be; what was out of memory, once,
        where the step says with how much more. Ray's own tries are none: it repeats what was out of memory for ever.

        Raises:
            InputError: Ray is not installed, or no node has what the step declares.
            TransientError: there is no cluster, it lost a task too often, or there was not enough memory for one.
        """
        if not items:
            return
        ray = self._connect()
        task = ray.remote(**self._options(ray, self._needs.memory_gib))(_call)
        shared = ray.put(work)
        todo, again = map(_Try, range(len(items))), deque[_Try]()
        running: dict[Any, _Try] = {}
        while True:
            while again and len(running) < _WAITING:
                one = again.popleft()
                options = self._options(ray, one.memory_gib or self._needs.memory_gib)
                running[task.options(**options).remote(shared, items[one.place])] = one
            for one in islice(todo, _WAITING - len(running)):
                running[task.remote(shared, items[one.place])] = one
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            one = running.pop(done)
            try:
                found = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except ray.exceptions.OutOfMemoryError as error:
                again.append(self._with_more(one, error))
            except _lost(ray) as error:
                again.append(self._once_more(one, error))
            else:
                yield one.place, found

    def _connect(self) -> Any:
        ray = _ray()
        if not self._connected:
            connect(self._address, self._environment)
            self._connected = True
        return ray

    def _options(self, ray: Any, memory_gib: float) -> dict[str, Any]:
        """What a task takes; a step that does without a card where there is none does so on a cluster, too.

        Raises:
            InputError: no node has that much: the task would wait for ever.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cards = max(node.get("GPU", 0) for node in nodes)
        gpus = self._needs.gpus
        if gpus is None:
            gpus = 1 if self._needs.image == "gpu" and cards else 0
        memory = int(memory_gib * (1 << 30))
        if not any(node.get("GPU", 0) >= gpus and node.get("memory", 0) >= memory for node in nodes):
            most = max(node.get("memory", 0) for node in nodes) / (1 << 30)
            raise InputError(
                f"{self._name} asks for {memory_gib:g} GiB and {gpus} GPUs a task, and no node of the Ray "
                f"cluster has both (at most {most:.1f} GiB, {cards:g} GPUs); see FOUNDRY_RESOURCES, or add such a node"
            )
        return {"num_cpus": 1, "num_gpus": gpus, "memory": memory, "max_retries": 0}

    def _with_more(self, one: _Try, error: Exception) -> _Try:
        """The try after one that was out of memory."""
        had, more = self._needs.memory_gib, self._needs.more_memory_gib
        if more is None or one.memory_gib:
            told = f"{had:g} GiB and then {more:g} GiB" if one.memory_gib else f"{had:g} GiB"
            name = "more_memory_gib" if one.memory_gib else "memory_gib, or more_memory_gib for one more try,"
            raise TransientError(
                f"a task of {self._name} was out of memory, with {told} declared; give it more ({name} of "
                f"[{self._name}] in FOUNDRY_RESOURCES), or let its parameters hold less: {error}"
            ) from error
        log.warning("a task of %s was out of memory with %g GiB; it runs once more with %g GiB", self._name, had, more)
        return replace(one, memory_gib=more)

    def _once_more(self, one: _Try, error: Exception) -> _Try:
        """The try after one whose worker or node was lost."""
        if one.lost == self._needs.retries:
            raise TransientError(f"the Ray cluster lost a task of {self._name}; run it again: {error}") from error
        log.warning("the Ray cluster lost a task of %s; it runs again: %s", self._name, str(error).split("\n")[0])
        return replace(one, lost=one.lost + 1)


@dataclass(frozen=True)
class _Try:
    """One try of one item: how often it was lost before, and with how much memory it runs, if not with the declared."""

    place: int
    lost: int = 0
    memory_gib: float | None = None


def _lost(ray: Any) -> tuple[type[Exception], ...]:
    lost = ray.exceptions
    return lost.RaySystemError, lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError


def _call(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)


def connect(address: str, environment: Mapping[str, str]) -> None:
    """Join the cluster at ``address``; its tasks get ``environment``.

    Raises:
        InputError: Ray is not installed.
        TransientError: no cluster answers.
    """
    ray = _ray()
    try:
        _knock(address)
        ray.init(
            address=address or "auto",
            logging_level="ERROR",
            configure_logging=False,
            runtime_env={"env_vars": dict(environment)},
        )
    except OSError as error:
        where = f"at {address}" if address else "on this machine"
        raise TransientError(
            f"no Ray cluster answers {where}; start one (`ray start --head`), or name one in RAY_ADDRESS"
        ) from error


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself goes on trying for many minutes."""
    if address and address != "auto":
        found = urlsplit(address if "://" in address else f"//{address}")
        with create_connection((found.hostname or "", found.port or 0), _PATIENCE_S):
            pass


def nodes(address: str) -> list[dict[str, float]]:
    """Processors (CPU), cards (GPU) and bytes of memory of every node of the cluster; errors as of :func:`connect`."""
    connect(address, {})
    try:
        return [node["Resources"] for node in _ray().nodes() if node["Alive"]]
    finally:
        _ray().shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "FOUNDRY_ENGINE=ray, and Ray is not installed here; install retriever-foundry[ray], or set it to local"
        ) from error
    return ray
