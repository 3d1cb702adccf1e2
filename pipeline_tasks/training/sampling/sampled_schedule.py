"""The schedule of a training with a sampler: every step has a batch of the source that the policy draws.

What was drawn, what the sampler knows and what it cost are one state, which the checkpoint holds. All draws are
functions of the seed and of the step, so a run that was killed, in the middle of a decision too, does the same again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, overload

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.guided import Guided
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.policy import choose
from pipeline_tasks.training.sampler import PROBE_ROWS, Pool, Sampler
from pipeline_tasks.training.sampling.targets import RowSample
from pipeline_tasks.training.sampling.trials import Trials
from pipeline_tasks.training.sampling.units import Units, units_of
from pipeline_tasks.training.schedule import Batch, Batches, check_mixture, n_steps

Trajectory = Sequence[Mapping[str, Any]]
_DRAW, _DECIDE, _PROBE = range(3)


class Sampling(Sequence[np.ndarray]):
    """Rows of every step that was done and of the one to come.

    Args:
        sampler: the policy.
        data: training rows.
        targets: name -> rows that it is guided by.
        gradients: of the data.

    Attributes:
        key: stands for the clusters that the sources are divided into; empty where they are not.
    """

    def __init__(self, sampler: Sampler, data: Rows, targets: Mapping[str, Rows], gradients: Gradients) -> None:
        self._sampler, self._data, self._gradients = sampler, data, gradients
        self._params: TrainParams = gradients.params
        self._targets = targets if any(part.reads_targets for part in sampler.parts) else {}
        for name, rows in self._targets.items():
            if (n_queries := len(np.unique(rows.query_of))) < 2:
                raise InputError(
                    f"sampler={sampler.name!r} is guided by targets, and of {name!r} the answers of {n_queries} "
                    "queries are known: name judged sets of two or more, or have dev queries"
                )
        units = units_of(data, self._params, gradients.encoder.model.get_input_embeddings().num_embeddings)
        self.key = units.key
        self._streams = _streams(data, units, self._params)
        n_rows = np.array([len(stream.rows) for stream in self._streams])
        steps = n_steps(dict(zip(units.names, n_rows, strict=True)), self._params)
        self.pool = Pool(units.names, n_rows, steps, units.shares(list(self._targets.values())))
        spent = {"gradients": 0, "deciding": 0, "tokens": 0, "deciding_tokens": 0}
        self.state: dict[str, Any] = {
            "sampler": sampler.begin(self.pool), "drawn": [0] * len(self.pool), "batches": [], "spent": spent,
            "points": [],
        }  # fmt: skip

    def __len__(self) -> int:
        return self.pool.steps

    @overload
    def __getitem__(self, step: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, step: slice) -> Sequence[np.ndarray]: ...
    def __getitem__(self, step: int | slice) -> np.ndarray | Sequence[np.ndarray]:
        if isinstance(step, slice):
            return [self[one] for one in range(*step.indices(len(self)))]
        if not 0 <= step < len(self):
            raise IndexError(step)
        return self.batch(step).rows

    def batch(self, step: int) -> Batch:
        """Of a step that was done, or of the next one, by what the policy is now."""
        done = self.state["batches"]
        source, number = done[step] if step < len(done) else self._draw(step)
        return self._streams[source][number]

    def before(self, step: int, descent: Descent) -> None:
        """Let the sampler decide where that is due before the step, which may move the weights."""
        influences = None
        if self._sampler.due(step):
            random = np.random.default_rng([self._params.seed, step, _DECIDE])
            influences = self._sampler.decide(self._bench(step, descent, random), self.state["sampler"], random)
        self._point(step, influences)

    def after(self, step: int) -> None:
        """Take in that the step was done."""
        source, number = self._draw(step)
        self._count_spent(int(self._data.tokens_of[self._streams[source][number].rows].sum()))
        self.state["batches"].append([source, number])
        self.state["drawn"][source] += 1
        if step == len(self) - 1:
            self._point(step + 1, None, last=True)

    def trajectory(self) -> Trajectory:
        """The policy wherever it changed, first and last."""
        return [{"sources": self.pool.names, "targets": list(self._targets), **point} for point in self.state["points"]]

    def _draw(self, step: int) -> tuple[int, int]:
        """A source, and the number of its next batch."""
        chance = np.random.default_rng([self._params.seed, step, _DRAW]).random()
        likely = self._sampler.probabilities(self.pool, self.state["sampler"], step)
        source = choose(likely, chance)
        return source, self.state["drawn"][source]

    def _point(self, step: int, influences: np.ndarray | None, *, last: bool = False) -> None:
        at = min(step, len(self) - 1)
        likely = self._sampler.probabilities(self.pool, self.state["sampler"], at).tolist()
        points = self.state["points"]
        if last or influences is not None or not points or points[-1]["probabilities"] != likely:
            points.append({
                "step": step, "probabilities": likely, "drawn": list(self.state["drawn"]), **self.state["spent"],
                "influences": [] if influences is None else influences.tolist(),
            })  # fmt: skip

    def _count_spent(self, tokens: int, gradients: int = 1, *, deciding: bool = False) -> None:
        spent = self.state["spent"]
        spent["gradients"] += gradients
        spent["tokens"] += tokens
        spent["deciding"] += gradients * deciding
        spent["deciding_tokens"] += tokens * deciding

    def _dropout_key(self) -> int:
        """Of the gradient of a decision that was counted last: above the numbers of all steps, which are their keys."""
        return len(self) + int(self.state["spent"]["deciding"])

    def _take(self, source: int) -> Batch:
        number = self.state["drawn"][source]
        self.state["drawn"][source] += 1
        return self._streams[source][number]

    def _bench(self, step: int, descent: Descent, random: np.random.Generator) -> Bench:
        targets = []
        if isinstance(self._sampler, Guided):
            targets = [self._some(rows, self._sampler.target_batch, random) for rows in self._targets.values()]
        count = partial(self._count_spent, deciding=True)
        trials = Trials(step, self._gradients, descent, self._take, count, self._dropout_key, targets, self._probes)
        return trials.bench(self.pool)

    @cached_property
    def _probes(self) -> list[RowSample]:
        random = np.random.default_rng([self._params.seed, _PROBE])
        return [self._some(self._data, PROBE_ROWS, random, stream.rows) for stream in self._streams]

    def _some(self, data: Rows, n: int, random: np.random.Generator, among: np.ndarray | None = None) -> RowSample:
        rows = np.arange(len(data)) if among is None else among
        chosen = np.sort(random.choice(rows, min(n, len(rows)), replace=False))
        return RowSample(self._gradients.encoder, data, chosen, self._params)


def _streams(data: Rows, units: Units, params: TrainParams) -> list[Batches]:
    """The batches of every unit, with the objective that a mixture may give its source."""
    objectives = {name: source.objective or params.objective for name, source in params.mixture.items()}
    if params.mixture:
        check_mixture(data.sources, params)
    return [
        Batches(data, rows, objectives.get(source, params.objective), params)
        for source, rows in zip(units.sources, units.rows(), strict=True)
    ]
