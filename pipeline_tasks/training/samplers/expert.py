"""Weights that somebody chose."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.sampler import Pool, Sampler, State


class Expert(Sampler):
    """p_i = w_i / sum w, whatever the number of rows.

    Raises:
        InputError: the weights are of other sources than the rows, or all 0.
    """

    weights: dict[str, float] = Field(description="source -> how often, beside the others")

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """The share of the weights, [m]."""
        if set(self.weights) != set(pool.names):
            named, there = (", ".join(sorted(some)) for some in (self.weights, pool.names))
            raise InputError(f"the expert's weights are of {named or 'nothing'}, and the rows are of {there}")
        weights = np.array([self.weights[name] for name in pool.names])
        if weights.min() < 0 or not weights.any():
            raise InputError(f"the expert's weights are {self.weights}: give none below 0, and one above")
        return weights / weights.sum()
