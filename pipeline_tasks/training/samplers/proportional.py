"""Every row alike, so that a source is seen as often as it has rows."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.training.sampler import Pool, Sampler, State


class Proportional(Sampler):
    """p_i = n_i / sum n; ``temperature`` with tau 1."""

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """The share of rows, [m]."""
        return pool.n_rows / pool.n_rows.sum()
