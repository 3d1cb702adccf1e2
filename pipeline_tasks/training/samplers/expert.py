"""Weights that somebody chose."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.sampler import Pool, Sampler, State

Weight = Annotated[float, Field(ge=0, le=1e100)]


class Expert(Sampler):
    """p_i = w_i / sum w, whatever the number of rows.

    Raises:
        InputError: the weights are of other sources than the rows, or all 0.
    """

    weights: dict[str, Weight] = Field(description="source -> sampling weight")

    def begin(self, pool: Pool) -> State:
        """Nothing; weights that do not fit the rows are refused."""
        if set(self.weights) != set(pool.names):
            named, there = (", ".join(sorted(some)) for some in (self.weights, pool.names))
            raise InputError(f"the expert's weights are of {named or 'nothing'}, and the rows are of {there}")
        if not any(self.weights.values()):
            raise InputError(f"the expert's weights are {self.weights}: give one above 0")
        return {}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """The share of the weights, [m]."""
        weights = np.array([self.weights[name] for name in pool.names])
        return weights / weights.sum()
