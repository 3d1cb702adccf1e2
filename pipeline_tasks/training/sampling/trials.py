"""A sampler's bench over the rows of a training: batches, gradients and scores, each of them counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.sampler import Metric, Pool
from pipeline_tasks.training.sampling.targets import RowSample
from pipeline_tasks.training.schedule import Batch


@dataclass(frozen=True)
class Trials:
    """What happens on the bench before a step.

    Attributes:
        step: of the run.
        gradients: of the training rows.
        descent: weights and optimiser.
        take: the next batch of a source, which counts as drawn.
        count_spent: counts tokens and gradients.
        dropout_key: a number that no gradient of the run has but the one that was counted last.
        targets: the rows of each that were drawn for this decision.
        probes: the rows of each source that were drawn for the whole training.
    """

    step: int
    gradients: Gradients
    descent: Descent
    take: Callable[[int], Batch]
    count_spent: Callable[[int, int], None]
    dropout_key: Callable[[], int]
    targets: Sequence[RowSample]
    probes: Sequence[RowSample]

    def bench(self, pool: Pool) -> Bench:
        """As a sampler is given it."""
        return Bench(pool, self.descent, self._learn, self._of_source, self._of_targets, self._score, self._probe)

    def _learn(self, source: int) -> float:
        batch, add = self._next(source)
        return self.descent.learn(add, batch.rows, self.step)

    def _of_source(self, source: int) -> Callable[[], float]:
        self.gradients.encoder.model.train()
        return self._next(source)[1]

    def _next(self, source: int) -> tuple[Batch, Callable[[], float]]:
        batch = self.take(source)
        self.count_spent(int(self.gradients.data.tokens_of[batch.rows].sum()), 1)
        key = self.dropout_key()
        return batch, lambda: self.gradients.add(batch, key)

    def _of_targets(self) -> float:
        self.count_spent(sum(sample.n_tokens for sample in self.targets), 1)
        key = self.dropout_key()
        share = 1 / len(self.targets)
        loss = sum(sample.add_gradients(key, share, self.gradients.peers) for sample in self.targets)
        self.gradients.add_up()
        return loss

    def _score(self, metric: Metric) -> np.ndarray:
        return np.array([self._of(sample, metric) for sample in self.targets])

    def _probe(self, source: int) -> float:
        return -self._of(self.probes[source], "loss")

    def _of(self, sample: RowSample, metric: Metric) -> float:
        """As the leader finds it, since processes that decide differently would part."""
        self.count_spent(sample.n_tokens, 0)
        peers = self.gradients.peers
        return peers.add(sample.score(metric) if peers.leads else 0.0)
