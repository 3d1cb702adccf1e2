"""All sources alike, however many rows they have."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.training.sampler import Pool, Sampler, State


class Uniform(Sampler):
    """p_i = 1 / m; ``temperature`` with an infinite tau."""

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """The same for each, [m]."""
        return np.full(len(pool), 1 / len(pool))
