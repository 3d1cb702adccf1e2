"""Where parts and partitions are computed. What is computed, and the bytes of it, are the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, Protocol

from pipeline_tasks.core.engines.left import Left
from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.engines.on_ray import OnRay
from pipeline_tasks.core.engines.team_on_ray import TeamOnRay
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.settings import OF_A_NODE, is_secret, passed_on, settings
from pipeline_tasks.core.step import Step, StepParams


class Engine(Protocol):
    """Calls one function on many things, on as many processors as it has."""

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and result of each item, as they are done; ``work``, items and results can be pickled."""

    def tidy(self, work: Callable[[Any], Any], item: Any) -> None:
        """Call ``work`` where the last item was computed.

        Raises:
            TransientError: that place is not there any more, or it failed.
        """


def engine_name(step: Step, params: StepParams) -> Literal["local", "ray"]:
    """The engine that a run of ``step`` has here: see :func:`engine_of`."""
    spreads = step.kind == "map" or (step.kind == "partitioned" and step.processes) or _is_training(step)
    pays = params.secrets(step.resources.secrets)
    return "ray" if settings().engine == "ray" and spreads and not pays else "local"


def engine_of(
    step: Step, params: StepParams, workers: int, left: Left = lambda item: 0.0
) -> AbstractContextManager[Engine]:
    """The engine of one run of ``step``, with at most ``workers`` processes where it is this machine.

    A step over whole datasets is one piece of work: one that trains is done by a node of the cluster, or by as many
    together as it asks for. Others stay here, as do those whose partitions take one process, and one that pays a
    service, as it has its limits in one process. One that runs its encoder itself pays nobody.

    Args:
        step: what runs.
        params: of the run.
        workers: at most so many processes of this machine.
        left: of a step over whole datasets, when a machine last went on with it, by what is left there.

    Raises:
        InputError: several nodes are asked for, and there is no cluster.
    """
    found = settings()
    needs = resources_of(step)
    if engine_name(step, params) == "ray":
        # What a task gets can be read on the cluster's pages: its nodes have the store's keys in their own environment.
        ours = {name: value for name, value in passed_on(()).items() if name not in OF_A_NODE}
        environment = {n: value for n, value in ours.items() if not (is_secret(n) or n.startswith("RAY_"))}
        environment["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "1"  # else who has no card sees those of all others
        if not _is_training(step):
            return OnRay(found.ray_address, step.name, needs, environment)
        device = params.model_dump().get("device")  # a step without such a parameter takes what is declared
        gpus = needs.gpus if device is None else (needs.gpus or 1) if device == "cuda" else 0
        engine = TeamOnRay if needs.nodes > 1 else OnRay
        return engine(found.ray_address, step.name, replace(needs, gpus=gpus), environment, found.threads, left)
    if needs.nodes > 1:
        raise InputError(
            f"{step.name} asks for {needs.nodes} nodes (FOUNDRY_RESOURCES), which a Ray cluster alone has: set "
            "FOUNDRY_ENGINE=ray, or leave nodes out"
        )
    return Local(workers if step.processes else 1)


def _is_training(step: Step) -> bool:
    return step.kind == "reduce" and step.resources.image == "gpu"
