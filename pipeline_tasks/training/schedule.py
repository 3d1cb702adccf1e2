"""What every step of a run does, laid out before the first: rows, objective, learning rate, whether to evaluate.

All are functions of the step's number, so a resumed run needs no iterator or scheduler state to go on
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import NamedTuple

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.compute.batches import plan_batches
from pipeline_tasks.training.data.mixture import Source
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.objective import Objective
from pipeline_tasks.training.params import OptimiserParams, TrainParams
from pipeline_tasks.training.sampler import Sampler


class Batch(NamedTuple):
    """The rows of one step, and what is made small on them."""

    rows: np.ndarray
    objective: Objective


def plan_schedule(data: Rows, params: TrainParams) -> list[Batch]:
    """The batch of every step.

    Without a mixture, rows of all sources meet. With one, a batch has rows of one source, batches of a source are
    spread evenly over an epoch, and a source goes on in the next epoch where it stopped. Where rows see one another,
    equal queries and equal positives are kept apart. Rows of a tuple meet where the objective reads contrasts, so that
    each of its texts is encoded once.

    Raises:
        InputError: the mixture leaves a source of the rows out, or names one that has no rows, or all weights are 0, or
            one is too small for a batch.
    """
    if not params.mixture:
        everything = Batches(data, np.arange(len(data)), params.objective, params)
        return [everything[step] for step in range(n_steps({"": len(data)}, params))]
    n_rows = np.bincount(data.source_of, minlength=len(data.sources))
    n_steps(dict(zip(data.sources, n_rows.tolist(), strict=True)), params)  # refuses what cannot be meant
    chosen = [(number, params.mixture[name]) for number, name in enumerate(data.sources)]
    streams = [
        _stream(data, np.flatnonzero(data.source_of == number), source, params)
        for number, source in chosen
        if source.weight
    ]
    return [batch for epoch in zip(*streams, strict=True) for batch in _spread(epoch)]


def n_steps(rows: Mapping[str, int], params: OptimiserParams) -> int:
    """How many batches a schedule of so many rows of each source has.

    Raises:
        InputError: as :func:`plan_schedule`.
    """
    if isinstance(params, TrainParams) and params.sampler:
        whole = sum(math.ceil(n / params.batch_size) for n in rows.values()) * params.epochs
        return steps_within(params.sampler, len(rows), whole, params.budget)
    if not isinstance(params, TrainParams) or not params.mixture:
        return math.ceil(sum(rows.values()) / params.batch_size) * params.epochs
    check_mixture(rows, params)
    return sum(_n_batches(name, n, params) for name, n in rows.items())


def _n_batches(source: str, n_rows: int, params: TrainParams) -> int:
    """Of a source of a mixture, in all epochs.

    Raises:
        InputError: it has a weight, and would not be seen all the same.
    """
    weight, per_pass = params.mixture[source].weight, math.ceil(n_rows / params.batch_size)
    found = round(params.epochs * (weight * per_pass))
    if weight and not found:
        raise InputError(
            f"the mixture gives {source!r} the weight {weight:g}, which is no whole batch of its {n_rows:,} rows in "
            f"{params.epochs} epochs of batches of {params.batch_size:,}: raise the weight or epochs, or lower "
            "batch_size, or leave it out by 0"
        )
    return found


def n_decisions(rows: Mapping[str, int], params: OptimiserParams) -> int:
    """How often a sampler decides, where there is one."""
    sampler = params.sampler if isinstance(params, TrainParams) else None
    return sum(sampler.due(step) for step in range(n_steps(rows, params))) if sampler else 0


def steps_within(sampler: Sampler, n_sources: int, whole: int, budget: int | None) -> int:
    """How many steps there are: ``whole``, or as many as a budget has room for beside the decisions before them.

    Raises:
        InputError: there is one source, or no decision before the end: so the sampler would change nothing.
    """
    if sampler.decides and n_sources < 2:
        raise InputError(
            f"sampler={sampler.name!r} has {n_sources} source to choose among: give rows of more, or say clusters=8, "
            "or unit=intent"
        )
    cost, steps = sampler.takes(n_sources).gradients, whole
    if budget is not None:
        steps, left = 0, budget
        while (left := left - 1 - cost * sampler.due(steps)) >= 0:
            steps += 1
    if sampler.decides and not any(sampler.due(step) for step in range(steps)):
        least = next(step for step in count() if sampler.due(step)) + 1
        there = f"budget={budget}" if budget is not None else f"{steps} steps"
        raise InputError(
            f"sampler={sampler.name!r} would never decide: its first decision takes {cost} gradients before step "
            f"{least}, and there is {there}. Raise budget or epochs, or lower what the sampler has of warmup_steps, "
            "steps or trial_steps"
        )
    return steps


def _stream(data: Rows, rows: np.ndarray, source: Source, params: TrainParams) -> Iterator[list[Batch]]:
    """The batches that a source gives to each epoch."""
    batches = Batches(data, rows, source.objective or params.objective, params)
    per_epoch = source.weight * -(-len(rows) // params.batch_size)
    for epoch in range(params.epochs):
        yield [batches[number] for number in range(round(epoch * per_epoch), round((epoch + 1) * per_epoch))]


class Batches:
    """Batches of ``rows`` without end, pass after pass; each is a function of its number."""

    def __init__(self, data: Rows, rows: np.ndarray, objective: Objective, params: TrainParams) -> None:
        self.rows, self.objective, self._params = rows, objective, params
        whole_batch = params.in_batch or objective.needs_batch
        self._apart = (data.query_of[rows], data.positive_of[rows]) if whole_batch else ()
        self._together = data.tuple_of[rows] if objective.needs_contrasts else None
        self._number, self._pass = -1, [np.zeros(0, np.int64)] * math.ceil(len(rows) / params.batch_size)

    def __getitem__(self, number: int) -> Batch:
        of_pass, place = divmod(number, len(self._pass))
        if of_pass != self._number:
            size, seed = self._params.batch_size, self._params.seed
            self._pass = plan_batches(len(self.rows), size, seed, of_pass, self._apart, self._together)
            self._number = of_pass
        return Batch(self.rows[self._pass[place]], self.objective)


def _spread(sources: tuple[list[Batch], ...]) -> list[Batch]:
    """The batches of all sources in one order, in which each source's are as far apart as can be."""
    placed = [((at + 0.5) / len(own), batch) for own in sources for at, batch in enumerate(own)]
    return [batch for _, batch in sorted(placed, key=lambda place_and_batch: place_and_batch[0])]


def check_mixture(sources: Collection[str], params: TrainParams) -> None:
    """Refuse a mixture that does not fit the sources.

    Raises:
        InputError: as :func:`plan_schedule`.
    """
    left_out, without_rows = set(sources) - set(params.mixture), set(params.mixture) - set(sources)
    if left_out or without_rows:
        said = [f"leaves out {', '.join(sorted(left_out))}"] if left_out else []
        said += [f"names {', '.join(sorted(without_rows))}, of which there are no rows"] if without_rows else []
        raise InputError(f"the mixture {' and '.join(said)}; the rows are of {', '.join(sorted(sources))}")
    if not any(source.weight for source in params.mixture.values()):
        raise InputError("the mixture gives every source the weight 0: nothing is left to train on")


def evaluation_steps(steps: int, params: OptimiserParams) -> set[int]:
    """The steps after which to evaluate: ``evals_per_epoch`` an epoch, evenly spaced, the last at the end."""
    evaluations = params.epochs * params.evals_per_epoch
    return {math.ceil(steps * part / evaluations) for part in range(1, evaluations + 1)}


def learning_rate(step: int, steps: int, params: OptimiserParams) -> float:
    """The rate of the 0-based ``step``: linear up to the peak over the warm-up, then linear towards 0."""
    warmup = math.ceil(params.warmup_ratio * steps)
    if step < warmup:
        return params.learning_rate * (step + 1) / warmup
    return params.learning_rate * (steps - step) / max(1, steps - warmup)
