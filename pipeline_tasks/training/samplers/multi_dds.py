"""MultiDDS: sources gain by how well their gradients agree with those of the targets."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.descent import along, length
from pipeline_tasks.training.guided import Rewarded
from pipeline_tasks.training.sampler import MARK_BYTES, State, Takes


class MultiDDS(Rewarded):
    """R_i = cos(g_i, g_dev), g_i of a batch of source i at theta, g_dev of the targets after a step on that source.

    A decision costs three gradients a source: of the batch, of the step, of the targets. Weights and optimiser go back.

    Departures: g_dev is of the mean loss of the targets, where the paper has a mean of cosines; the step that leads to
    it is on the next batch of the source, as a batch is gone through once.

    Source:
        Wang et al. 2020, "Balancing Training for Multilingual Neural Machine Translation", Algorithm 1, Equation 9.
    """

    def takes(self, n_sources: int) -> Takes:
        """Three gradients a source; one of them is held while the others are taken."""
        return Takes(of_sources=2 * n_sources, of_targets=n_sources, bytes_a_weight=MARK_BYTES + 4)

    def decide(self, bench: Bench, state: State, random: np.random.Generator) -> np.ndarray:
        """Rewards by cosine, and psi by REINFORCE."""
        m, descent = len(bench.pool), bench.descent
        mark, rewards = descent.mark(), np.empty(m)
        for i in range(m):
            own = descent.gradients(bench.of_source(i))
            bench.learn(i)
            wanted = descent.gradients(bench.of_targets)
            rewards[i] = along(own, wanted) / max(length(own) * length(wanted), np.finfo(float).tiny)
            del own, wanted
            descent.back(mark)
        self.reward(state, np.arange(m), rewards)
        return rewards[:, None]
