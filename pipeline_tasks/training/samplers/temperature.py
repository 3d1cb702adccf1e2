"""Between all rows alike and all sources alike: one number says how far."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline_tasks.training.policy import softmax
from pipeline_tasks.training.sampler import Pool, Sampler, State


class Temperature(Sampler):
    """p_i = n_i^(1/tau) / sum n^(1/tau): tau 1 counts rows, a large one sources; below 1 large sources gain.

    Source:
        Inf-DDS, Algorithm 1, line 3.
    """

    tau: float = Field(
        3.3,
        gt=0,
        description="sampling temperature; 1: proportional to the rows; large: uniform; below 1: the largest most",
    )

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """By the formula, [m]."""
        return softmax(np.log(pool.n_rows) / self.tau)
