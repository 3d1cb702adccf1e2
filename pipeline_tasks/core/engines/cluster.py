"""The Ray cluster that the settings name: joining it, and what its nodes have."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from socket import create_connection
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError, TransientError, installed_with
from pipeline_tasks.core.step import Resources

_PATIENCE_S = 10.0
_JOINING_S, _PAUSE_S = 120.0, 1.0
_HEAD, _KIND = "node:__internal_head__", "accelerator_type:"


@dataclass(frozen=True)
class Node:
    """A node that is alive.

    Attributes:
        id: Ray's, of this one and no later one.
        name: its address.
        is_head: it runs the cluster's own services.
        cpus: processors that it offers.
        gpus: cards that it offers.
        gpu_kind: what the cards are; empty where there are none, or Ray does not know them.
        memory_bytes: memory that it offers.
    """

    id: str
    name: str
    is_head: bool
    cpus: float
    gpus: float
    gpu_kind: str
    memory_bytes: int

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Node:
        """From what ``ray.nodes()`` tells of it."""
        has: Mapping[str, float] = node["Resources"]
        kinds = [name.removeprefix(_KIND) for name in has if name.startswith(_KIND)]
        cpus, gpus, memory = (has.get(name, 0) for name in ("CPU", "GPU", "memory"))
        return cls(node["NodeID"], node["NodeManagerAddress"], _HEAD in has, cpus, gpus, ", ".join(kinds), int(memory))


def connect(address: str, environment: Mapping[str, str]) -> Any:
    """Join the cluster at ``address`` (empty: that of this machine), whose actors get ``environment``; the module Ray.

    Raises:
        InputError: Ray is not installed, or another version than the cluster's.
        TransientError: no cluster answers.
    """
    ray = _ray()
    try:
        _join(ray, address, environment)
    except OSError as error:
        where = f"at {address}" if address else "on this machine"
        raise TransientError(
            f"no Ray cluster answers {where} ({' '.join(str(error).split())}); start one (`ray start --head`), or name "
            "one in RAY_ADDRESS"
        ) from error
    except RuntimeError as error:
        if "Version mismatch" not in str(error):
            raise
        reason = " ".join(str(error).split())
        raise InputError(f"this machine and the Ray cluster differ; install the same on both: {reason}") from error
    return ray


def _join(ray: Any, address: str, environment: Mapping[str, str]) -> None:
    """Join; at the port for clients again and again, since a busy head serves one later than Ray's client waits."""
    until = monotonic() + (_JOINING_S if address.startswith("ray://") else 0.0)
    while True:
        _knock(address)
        try:
            ray.init(
                address=address or "auto",
                logging_level="ERROR",
                configure_logging=False,
                runtime_env={"env_vars": dict(environment)},
            )
        except ConnectionError:
            ray.shutdown()
            if monotonic() >= until:
                raise
            sleep(_PAUSE_S)
        else:
            return


def _knock(address: str) -> None:
    """Fail at once where nobody listens: Ray itself goes on trying for many minutes."""
    if address and address != "auto":
        found = urlsplit(address if "://" in address else f"//{address}")
        with create_connection((found.hostname or "", found.port or 0), _PATIENCE_S):
            pass


def nodes(ray: Any) -> list[Node]:
    """The nodes of the cluster that was joined, its head first."""
    found = [Node.of(node) for node in ray.nodes() if node["Alive"]]
    return sorted(found, key=lambda node: (not node.is_head, node.name))


def has_room(node: Node, taken: Mapping[str, float]) -> bool:
    """Whether an actor that takes so much, by Ray's names, can be on ``node``."""
    return node.cpus >= 1 and node.gpus >= taken["num_gpus"] and node.memory_bytes >= taken["memory"]


def room_for(ray: Any, name: str, needs: Resources, memory_gib: float, threads: int) -> dict[str, float]:
    """The room of one actor of a step, by Ray's names.

    A step that does without a card where there is none does so on a cluster, too.

    Args:
        ray: the module, with a cluster joined.
        name: of the step.
        needs: of an actor.
        memory_gib: that it has this time.
        threads: how many processors it has, where so many nodes as it needs have them.

    Raises:
        InputError: not as many nodes as it needs have that much: it would wait for ever.
        TransientError: no node computes at all, as while the workers start again.
    """
    there = nodes(ray)
    if not any(node.cpus >= 1 for node in there):
        raise TransientError(f"{name}: no node of the Ray cluster offers a processor now; try again")
    cards = max(node.gpus for node in there)
    gpus = needs.gpus
    if gpus is None:
        gpus = 1 if needs.image == "gpu" and cards else 0
    taken: dict[str, float] = {"num_cpus": 1, "num_gpus": gpus, "memory": int(memory_gib * (1 << 30))}
    fitting = [node for node in there if has_room(node, taken)]
    if len(fitting) < needs.nodes:
        most = max(node.memory_bytes for node in there) / (1 << 30)
        together = f" on {needs.nodes} nodes at once" if needs.nodes > 1 else ""
        has = ["no node", "1 node"][len(fitting)] if len(fitting) < 2 else f"{len(fitting)} nodes"
        raise InputError(
            f"{name} asks for {memory_gib:g} GiB and {gpus} GPUs a task{together}, and {has} of the Ray cluster "
            f"{'have' if len(fitting) > 1 else 'has'} both (at most {most:.1f} GiB, {cards:g} GPUs); see "
            "FOUNDRY_RESOURCES, or add such a node"
        )
    cpus = sorted(int(node.cpus) for node in fitting)[-needs.nodes]
    return taken | {"num_cpus": max(1, min(threads, cpus))}


@contextmanager
def reached(ray: Any, name: str) -> Iterator[None]:
    """Say that the cluster is gone where a call of Ray fails as the connection to it does.

    Raises:
        TransientError: it is, while it did the step of that name.
    """
    grpc = sys.modules.get("grpc")
    lost = (ConnectionError, grpc.RpcError) if grpc else (ConnectionError,)
    try:
        yield
    except lost as error:
        if isinstance(error.__cause__, ray.exceptions.RayError):  # the step's own
            raise
        reason = " ".join(str(error).split())
        raise TransientError(f"the Ray cluster was lost while it did {name}; run it again: {reason}") from error


def nodes_at(address: str) -> list[Node]:
    """The nodes of the cluster at ``address``; errors as of :func:`connect`."""
    ray = connect(address, {})
    try:
        return nodes(ray)
    finally:
        ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError(
            f"FOUNDRY_ENGINE=ray, and Ray is not installed here: {installed_with('ray')}, or set it to local"
        ) from error
    return ray
