"""What a sampler is: a policy over the sources of a training, which says how often each is learned from.

It is asked for probabilities before every step, and what it has found out is a few numbers, which a checkpoint holds.
One that learns is given a :class:`~pipeline_tasks.training.bench.Bench` every so many steps: there it may try out what
learning from a source does, and put everything back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from pipeline_tasks.training.named import Named

if TYPE_CHECKING:
    from pipeline_tasks.training.bench import Bench

State = dict[str, list[float]]
"""What a sampler has found out so far: plain numbers, so that a checkpoint holds them to the bit."""
Metric = Literal["loss", "calibrated", "ndcg"]


@dataclass(frozen=True)
class Pool:
    """What is chosen among.

    Attributes:
        names: of the sources.
        n_rows: training rows of each.
        steps: of the whole training.
        shares: of the targets' queries that fall into each, [m]; None where they are no clusters, or without targets.
    """

    names: Sequence[str]
    n_rows: np.ndarray
    steps: int
    shares: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Takes:
    """What a decision takes.

    Attributes:
        of_sources: gradients of a batch of a source.
        of_targets: gradients of all targets.
        scores: of all targets.
        probes: of rows of a source, :data:`PROBE_ROWS` at most.
        bytes_a_weight: that are held beside weights, gradients and moments, for each weight that trains.
    """

    of_sources: int = 0
    of_targets: int = 0
    scores: int = 0
    probes: int = 0
    bytes_a_weight: int = 0

    @property
    def gradients(self) -> int:
        """Of which each counts as a step of the budget."""
        return self.of_sources + self.of_targets


PROBE_ROWS = 64
"""Rows of a source, at most, whose losses a trial looks at."""
MARK_BYTES = 12
"""Of a weight, a copy of which with its two moments a decision goes back to."""


class Sampler(Named):
    """Base of all samplers: its fields are its parameters. Static ones define :meth:`probabilities` and no more."""

    needs_clusters: ClassVar[bool] = False
    """What it chooses among must be clusters."""
    reads_targets: ClassVar[bool] = False
    """What it says depends on targets."""

    @property
    def decides(self) -> bool:
        """Whether it is :meth:`due` now and then."""
        return type(self).decide is not Sampler.decide

    @property
    def parts(self) -> list[Sampler]:
        """Itself, and those that its parameters name."""
        inner = [value for _, value in self if isinstance(value, Sampler)]
        return [self, *(part for one in inner for part in one.parts)]

    def begin(self, pool: Pool) -> State:
        """What is known before the first step."""
        return {}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """How likely each source gives the batch of this step, [m]; they add up to 1."""
        raise NotImplementedError(f"{self.name} does not define probabilities")

    def due(self, step: int) -> bool:
        """Whether to decide anew before this step."""
        return False

    def decide(self, bench: Bench, state: State, random: np.random.Generator) -> np.ndarray:
        """Change ``state`` by what the bench shows, and leave weights and optimiser as the method wants them.

        Shapes:
            returns [m, n], what learning from a source did for a target; NaN where that was not measured.
        """
        raise NotImplementedError(f"{self.name} does not define decide")

    def takes(self, n_sources: int) -> Takes:
        """What a decision takes among so many sources."""
        return Takes()
