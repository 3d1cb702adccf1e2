"""What samplers that look at targets have in common, and what those have that learn a policy by rewards."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.policy import Rule, climb, softmax
from pipeline_tasks.training.sampler import Pool, Sampler, State
from pipeline_tasks.training.samplers import Static

_NAMED = 5


class Guided(Sampler):
    """Base of those that look at targets."""

    reads_targets: ClassVar[bool] = True

    target_batch: int = Field(256, ge=2, description="rows of each target that a decision looks at")


class Rewarded(Guided):
    """Base of those that learn P(i) = softmax(psi)_i while the model trains: every so many steps, after a warm-up.

    A subclass's ``decide`` finds the rewards and ends with :meth:`reward`.

    Raises:
        InputError: ``start`` never draws a source: by REINFORCE it never would be drawn, however much it helps.
    """

    start: Static = Field("uniform", validate_default=True, description="what the probabilities are at first")
    every: int = Field(50, ge=1, description="steps between decisions")
    warmup_steps: int = Field(50, ge=0, description="steps before the first decision")
    rate: float = Field(0.1, gt=0, description="of psi")
    rule: Rule = Field("adam", description="by which psi climbs: adam, standardised or sgd")

    def begin(self, pool: Pool) -> State:
        """The logarithms of what ``start`` says."""
        first = self.start.probabilities(pool, self.start.begin(pool), 0)
        if never := [name for name, share in zip(pool.names, first, strict=True) if share <= 0]:
            raise InputError(
                f"start={self.start.name!r} never draws {', '.join(never[:_NAMED])}{', ...' * (len(never) > _NAMED)} "
                f"({len(never)} of {len(pool)} sources), and {self.name} cannot learn to: give crisp some smoothing "
                "such as 0.1, an expert's source a weight, or leave such rows out"
            )
        return {"psi": np.log(first).tolist()}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """Inf-DDS, Equation 2, [m]."""
        return softmax(np.array(state["psi"]))

    def due(self, step: int) -> bool:
        """After the warm-up, every ``every`` steps."""
        return step >= self.warmup_steps and (step - self.warmup_steps) % self.every == 0

    def reward(self, state: State, some: np.ndarray, rewards: np.ndarray) -> None:
        """Let psi climb by the rewards of some sources."""
        climb(state, some, rewards, self.rate, self.rule)
