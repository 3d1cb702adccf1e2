"""Where a sampler tries out what learning from a source does: everything it may do to weights between two steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.sampler import Metric, Pool

Gradients = Callable[[], float]
"""Adds the gradients of a mean loss to the weights, and returns that loss."""


@dataclass(frozen=True)
class Bench:
    """Sources, targets, and weights between two steps of a training.

    Attributes:
        pool: what is chosen among.
        descent: weights and optimiser; its rate is that of the step to come.
        learn: takes a step of the optimiser on the next batch of a source; its loss. It costs a gradient.
        of_source: the next batch of a source, for its gradients alone. It costs a gradient.
        of_targets: for the gradients of the mean loss of all targets, on the rows drawn for this decision; a gradient.
        score: [n], the metric of the weights as they are on each target, on those rows; the higher the better.
        probe: the loss on rows of a source that are drawn once a training, without a gradient.
    """

    pool: Pool
    descent: Descent
    learn: Callable[[int], float]
    of_source: Callable[[int], Gradients]
    of_targets: Gradients
    score: Callable[[Metric], np.ndarray]
    probe: Callable[[int], float]
