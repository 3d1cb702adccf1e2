"""A temperature for the first part of a training, another for the rest."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline_tasks.training.policy import softmax
from pipeline_tasks.training.sampler import Pool, Sampler, State


class Cooldown(Sampler):
    """``temperature`` with ``first`` until the share ``until`` of the steps is done, then with ``last``.

    The defaults show small sources often at first, and every row alike at the end, when repeating them would harm. Inf-
    DDS describes it the other way round, large sources first: ``first=1, last=100``.

    Source:
        Li et al. 2024, "Upsample or Upweight? Balanced Training on Heavily Imbalanced Datasets".
    """

    first: float = Field(5.0, gt=0, description="sampling temperature tau at the beginning")
    last: float = Field(1.0, gt=0, description="sampling temperature tau at the end")
    until: float = Field(0.5, ge=0, le=1, description="fraction of the steps after which the second one counts")

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """By the formula of ``temperature``, [m]."""
        return softmax(np.log(pool.n_rows) / (self.first if step < self.until * pool.steps else self.last))
