"""DoGE: weights from a trial run, by how well gradients of the sources agree with those of the targets; then fixed."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.descent import along, length
from pipeline_tasks.training.guided import Guided
from pipeline_tasks.training.policy import choose, softmax
from pipeline_tasks.training.sampler import MARK_BYTES, Pool, State, Takes


class DoGE(Guided):
    """log a_i += W_i / mu, W_i = <g_i, g_dev> / mean |g|; what trains is drawn by the mean of a over the trial.

    Gradients are as a step would take them, clipped to ``max_grad_norm``; where all of them are longer, W is a cosine
    times that. The trial begins at the weights of the training, which it leaves as they were. A step of it costs a
    gradient of each source, one of the targets, and one that is learned from.

    Departures: the trial is of the model itself, not of a smaller one; its steps are on one source each, drawn by a,
    which in the mean is the weighted sum of the paper, all at the peak learning rate; the targets' rows are drawn once;
    W may be negative, which the authors' program takes for 0; and mu is for trials of a few steps: theirs take
    thousands, each of which moves log a by 0.05 to 0.25 times W.

    Source:
        Fan et al. 2024, "DoGE: Domain Reweighting with Generalization Estimation", Algorithm 1, for given targets.
    """

    trial_steps: int = Field(20, ge=1, description="steps of the trial run")
    mu: float = Field(
        1.0, gt=0, description="regularisation mu: the larger, the less a trial step moves the sampling weights"
    )

    def begin(self, pool: Pool) -> State:
        """All alike."""
        return {"weights": [1 / len(pool)] * len(pool)}

    def probabilities(self, pool: Pool, state: State, step: int) -> np.ndarray:
        """As the trial found them, [m]."""
        return np.array(state["weights"])

    def due(self, step: int) -> bool:
        """Once."""
        return step == 0

    def takes(self, n_sources: int) -> Takes:
        """The whole trial, in which the targets' gradient is held while those of the sources are taken."""
        of_sources = self.trial_steps * (n_sources + 1)
        return Takes(of_sources, of_targets=self.trial_steps, bytes_a_weight=MARK_BYTES + 4)

    def decide(self, bench: Bench, state: State, random: np.random.Generator) -> np.ndarray:
        """The trial; what is returned is the mean W."""
        m, descent = len(bench.pool), bench.descent
        mark, logits = descent.mark(), np.zeros(m)
        agreed, weights = np.zeros(m), np.zeros(m)
        with descent.at(descent.params.learning_rate):
            for _ in range(self.trial_steps):
                found = self._agreement(bench)
                logits += found / self.mu
                now = softmax(logits)
                agreed, weights = agreed + found, weights + now
                bench.learn(choose(now, random.random()))
        descent.back(mark)
        state["weights"] = (weights / weights.sum()).tolist()
        return (agreed / self.trial_steps)[:, None]

    def _agreement(self, bench: Bench) -> np.ndarray:
        """W, [m]."""
        m, descent = len(bench.pool), bench.descent
        most, products, lengths = descent.params.max_grad_norm, np.empty(m), np.empty(m)
        wanted = descent.gradients(bench.of_targets)
        for i in range(m):
            own = descent.gradients(bench.of_source(i))
            products[i], lengths[i] = along(own, wanted), length(own)
            del own
        of_targets, tiny = length(wanted), np.finfo(float).tiny
        clipped = np.minimum(lengths, most)
        cosines = products / np.maximum(lengths * of_targets, tiny)
        return cosines * clipped * min(of_targets, most) / max(clipped.mean(), tiny)
