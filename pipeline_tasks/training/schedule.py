"""What every step of a run does, laid out before the first: rows, learning rate, whether to evaluate.

All are functions of the step's number, so a resumed run needs no iterator or scheduler state to go on
exactly.
"""

import math

import numpy as np

from pipeline_tasks.training.batches import plan_batches
from pipeline_tasks.training.examples import TokenSet
from pipeline_tasks.training.params import OptimiserParams, TrainParams


def plan_schedule(data: TokenSet, params: TrainParams) -> list[np.ndarray]:
    """The rows of every step; where rows see one another, equal queries and equal positives are kept apart."""
    apart = (data.query_of, data.positive_of) if params.whole_batch else ()
    epochs = (plan_batches(len(data), params.batch_size, params.seed, epoch, apart) for epoch in range(params.epochs))
    return [batch for epoch in epochs for batch in epoch]


def evaluation_steps(steps: int, params: OptimiserParams) -> set[int]:
    """The steps after which to evaluate: ``evals_per_epoch``, evenly spaced, the last at the epoch's end."""
    per_epoch, evals = steps // params.epochs, params.evals_per_epoch
    within = {math.ceil(per_epoch * part / evals) for part in range(1, evals + 1)}
    return {epoch * per_epoch + step for epoch in range(params.epochs) for step in within}


def learning_rate(step: int, steps: int, params: OptimiserParams) -> float:
    """The rate of the 0-based ``step``: linear up to the peak over the warm-up, then linear towards 0."""
    warmup = math.ceil(params.warmup_ratio * steps)
    if step < warmup:
        return params.learning_rate * (step + 1) / warmup
    return params.learning_rate * (steps - step) / max(1, steps - warmup)
