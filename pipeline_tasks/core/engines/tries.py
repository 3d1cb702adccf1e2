"""Tries of one item on a Ray cluster: what comes after one that was lost, or was out of memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.step import Resources

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Try:
    """One try of one item: with how much memory it runs, and how often it was lost before."""

    place: int
    memory_gib: float
    lost: int = 0


class Tries:
    """Those of one run of a step.

    Args:
        ray: the module, with a cluster joined.
        name: of the step.
        needs: how much memory a try has, and how often one is tried.
    """

    def __init__(self, ray: Any, name: str, needs: Resources) -> None:
        self._ray, self._name, self._needs = ray, name, needs

    def first(self, place: int) -> Try:
        """The first one of the item there."""
        return Try(place, self._needs.memory_gib)

    def after(self, error: Exception, one: Try) -> Try:
        """The try after ``one``, which ended with what Ray raised.

        Raises:
            TransientError: it was lost too often, or there was not enough memory for it.
            Exception: what it raised itself.
        """
        if isinstance(error, self._ray.exceptions.RayTaskError):
            raise error.cause from error
        if isinstance(error, self._ray.exceptions.OutOfMemoryError):
            return self._with_more(one, error)
        return self._once_more(one, error)

    def _with_more(self, one: Try, error: Exception) -> Try:
        """The try after one that was out of memory."""
        had, more = self._needs.memory_gib, self._needs.more_memory_gib
        if more is None or one.memory_gib == more:
            limits = f"{had:g} GiB and then {more:g} GiB" if more else f"{had:g} GiB"
            name = "more_memory_gib" if more else "memory_gib, or more_memory_gib for one more try,"
            raise TransientError(
                f"a task of {self._name} was out of memory, with {limits} declared; give it more ({name} of "
                f"[{self._name}] in FOUNDRY_RESOURCES), or let its parameters hold less: {error}"
            ) from error
        log.warning("a task of %s was out of memory with %g GiB; it runs once more with %g GiB", self._name, had, more)
        return replace(one, memory_gib=more)

    def _once_more(self, one: Try, error: Exception) -> Try:
        """The try after one whose actor or node was lost."""
        if one.lost == self._needs.retries:
            raise TransientError(f"the Ray cluster lost a task of {self._name}; run it again: {error}") from error
        log.warning("the Ray cluster lost a task of %s; it runs again: %s", self._name, str(error).split("\n")[0])
        return replace(one, lost=one.lost + 1)


def ends(ray: Any) -> tuple[type[Exception], ...]:
    """How a try may end but with what it gives: by itself, out of memory, or with its actor or node."""
    kinds = ray.exceptions
    lost = (kinds.RaySystemError, kinds.RayActorError, kinds.WorkerCrashedError, kinds.NodeDiedError)
    nowhere = (kinds.ActorUnschedulableError, kinds.ObjectLostError)
    return kinds.RayTaskError, kinds.OutOfMemoryError, *lost, *nowhere
