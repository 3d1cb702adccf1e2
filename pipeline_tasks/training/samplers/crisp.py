"""CRISP: clusters of the training rows, as often as the targets' queries fall into them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.sampler import Pool, Sampler, State


class CRISP(Sampler):
    """p_c = share of the targets' queries in cluster c, so that each of its rows weighs p_c / (its share of the rows).

    The shares are counted once, before the first step, by passages that answer the queries; several targets count
    alike. No gradient is taken, and no score. A cluster without such queries is never learned from unless ``smoothing``
    says so; that is of use where it is what another sampler starts from.

    Departures: clusters are of lexical vectors (:mod:`~pipeline_tasks.training.sampling.clusters`), not of a sentence
    encoder's; each source is divided by itself, and a query counts for the nearest cluster of all. ``unit=all`` divides
    all rows together, as the paper does.

    Source:
        Grangier et al. 2025, "Task-Adaptive Pretrained Language Models via Clustered-Importance Sampling"; Inf-DDS,
        section 4 and appendix A, has 32^x clusters, x from 1 to 3.
    """

    needs_clusters: ClassVar[bool] = True
    reads_targets: ClassVar[bool] = True

    smoothing: float = Field(0.0, ge=0, le=1, description="smoothing: share of the uniform distribution over rows")

    def begin(self, pool: Pool) -> State:
        """Shares of the targets' queries.

        Raises:
            InputError: what is chosen among are no clusters, or there are no targets.
        """
        if pool.shares is None:
            raise InputError(
                f"sampler={self.name!r} counts the targets' queries in clusters: set clusters=32, and name judged "
                "sets, or have dev queries"
            )
        return {"shares": pool.shares.tolist()}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """As they were counted, [m]."""
        return (1 - self.smoothing) * np.array(state["shares"]) + self.smoothing * pool.n_rows / pool.n_rows.sum()
