"""DoReMi: weights from a trial run, by what is still to be learned of each source; no target is looked at."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.policy import choose, softmax
from pipeline_tasks.training.sampler import MARK_BYTES, Pool, Sampler, State, Takes
from pipeline_tasks.training.samplers import Static


class DoReMi(Sampler):
    """e_i = max(0, loss_i - reference loss_i); log a_i += eta e_i, a smoothed; drawn by the mean of a over the trial.

    Two runs of ``trial_steps`` from the weights of the training, which they leave as they were: a reference, whose
    batches ``reference`` draws, and a proxy, whose batches a draws.

    Departures: both are of the model itself, not of a smaller one, at the peak learning rate; losses are of rows of
    each source that are drawn once, so that those of the reference are taken once and its weights need not be kept.

    Source:
        Xie et al. 2023, "DoReMi: Optimizing Data Mixtures Speeds Up Language Model Pretraining", Algorithm 1.
    """

    reference: Static = Field("proportional", validate_default=True, description="sampler of the reference model")
    trial_steps: int = Field(20, ge=1, description="steps of the reference, and of the proxy")
    rate: float = Field(1.0, gt=0, description="eta: step size of the sampling weights")
    smoothing: float = Field(
        1e-3, ge=0, le=1, description="smoothing: share of the uniform distribution in the sampling weights"
    )

    def begin(self, pool: Pool) -> State:
        """All alike; what the reference would refuse is refused now."""
        self._of_reference(pool)
        return {"weights": [1 / len(pool)] * len(pool)}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """As the trial found them, [m]."""
        return np.array(state["weights"])

    def due(self, step: int) -> bool:
        """Once."""
        return step == 0

    def takes(self, n_sources: int) -> Takes:
        """Both runs; the loss of each source before every step of the second."""
        probes = (self.trial_steps + 1) * n_sources
        return Takes(2 * self.trial_steps, probes=probes, bytes_a_weight=MARK_BYTES)

    def decide(self, bench: Bench, state: State, random: np.random.Generator) -> np.ndarray:
        """Both runs; what a source does for targets is not measured."""
        m, descent = len(bench.pool), bench.descent
        mark = descent.mark()
        likely = self._of_reference(bench.pool)
        with descent.at(descent.params.learning_rate):
            for _ in range(self.trial_steps):
                bench.learn(choose(likely, random.random()))
            learned = np.array([bench.probe(i) for i in range(m)])
            descent.back(mark)
            weights, now = np.zeros(m), np.full(m, 1 / m)
            for _ in range(self.trial_steps):
                excess = np.maximum(0, np.array([bench.probe(i) for i in range(m)]) - learned)
                now = softmax(np.log(now) + self.rate * excess)
                now = (1 - self.smoothing) * now + self.smoothing / m
                weights += now
                bench.learn(choose(now, random.random()))
        descent.back(mark)
        state["weights"] = (weights / weights.sum()).tolist()
        return np.full((m, 1), np.nan)

    def _of_reference(self, pool: Pool) -> np.ndarray:
        return self.reference.probabilities(pool, self.reference.begin(pool), 0)
