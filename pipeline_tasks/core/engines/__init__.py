"""Where parts and partitions are computed. What is computed, and the bytes of it, are the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pipeline_tasks.core.engines.local import Local


class Engine(Protocol):
    """Calls one function on many things, on as many processors as it has."""

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Place and result of each item, as they are done; ``work``, items and results can be pickled."""


def engine_of(workers: int) -> AbstractContextManager[Engine]:
    """The engine of one run, with at most ``workers`` processes."""
    return Local(workers)
