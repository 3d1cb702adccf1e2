"""Tasks of a Ray cluster, each with the processors, cards and memory that the step declares.

What a task makes is in the store when it ends, and only its name comes back: so the store is a bucket, or a folder that
all nodes share, and nothing of size is in Ray's object store. A task whose worker or node is lost runs again elsewhere,
and finds what others have made. Ray keeps worker processes, and with them an encoder that a task has loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from socket import create_connection
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.step import Resources

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

        Raises:
            InputError: Ray is not installed, or no node has what the step declares.
            TransientError: there is no cluster, or it lost a task more often than the step may be tried again.
        """
        if not items:
            return
        ray = self._connect()
        task = ray.remote(**self._options(ray))(_call)
        shared = ray.put(work)
        todo = iter(enumerate(items))
        running: dict[Any, int] = {}
        while True:
            for place, item in islice(todo, _WAITING - len(running)):
                running[task.remote(shared, item)] = place
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            yield running.pop(done), self._result(ray, done)

    def _connect(self) -> Any:
        ray = _ray()
        if not self._connected:
            connect(self._address, self._environment)
            self._connected = True
        return ray

    def _options(self, ray: Any) -> dict[str, Any]:
        """What a task takes; a step that does without a card where there is none does so on a cluster, too.

        Raises:
            InputError: no node has that much: the task would wait for ever.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cards = max(node.get("GPU", 0) for node in nodes)
        gpus = self._needs.gpus
        if gpus is None:
            gpus = 1 if self._needs.image == "gpu" and cards else 0
        memory = int(self._needs.memory_gib * (1 << 30))
        if not any(node.get("GPU", 0) >= gpus and node.get("memory", 0) >= memory for node in nodes):
            most = max(node.get("memory", 0) for node in nodes) / (1 << 30)
            raise InputError(
                f"{self._name} asks for {self._needs.memory_gib:g} GiB and {gpus} GPUs a task, and no node of the Ray "
                f"cluster has both (at most {most:.1f} GiB, {cards:g} GPUs); see FOUNDRY_RESOURCES, or add such a node"
            )
        return {"num_cpus": 1, "num_gpus": gpus, "memory": memory, "max_retries": self._needs.retries}

    def _result(self, ray: Any, done: Any) -> Any:
        lost = ray.exceptions
        try:
            return ray.get(done)
        except lost.RayTaskError as error:
            raise error.cause from error
        except lost.OutOfMemoryError as error:
            raise TransientError(
                f"a task of {self._name} was out of memory, with {self._needs.memory_gib:g} GiB declared; give it more "
                f"(memory_gib of [{self._name}] in FOUNDRY_RESOURCES), or let its parameters hold less: {error}"
            ) from error
        except (lost.RaySystemError, lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError) as error:
            raise TransientError(f"the Ray cluster lost a task of {self._name}; run it again: {error}") from error


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
