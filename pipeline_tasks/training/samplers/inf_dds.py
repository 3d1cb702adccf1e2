"""Inf-DDS: sources gain by what a few steps on them do for the targets, and these steps are not thrown away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.guided import Rewarded
from pipeline_tasks.training.sampler import MARK_BYTES, Metric, State, Takes

if TYPE_CHECKING:
    from torch import Tensor

Weighing = Literal["softmax", "influence"]


class InfDDS(Rewarded):
    """P(i) = softmax(psi)_i, psi by REINFORCE from the influence I^i of each source, theta by a Reptile update.

    A decision at theta_t, for every source i, or k < m of them drawn alike: ``steps`` steps with the optimiser's state
    give theta^i; I^i is the mean over targets of M(theta^i) - M(theta_t), so it is positive where the source helps.
    Then weights and optimiser go back. With the mean way D = sum w_i (theta^i - theta_t) / sum w_i:

    - theta_t+1 = theta_t + alpha D; alpha is the learning rate as in the paper unless ``reptile_rate`` says otherwise.
    - the optimiser's moments take in -D as they would a gradient, which points uphill where a way points down.
    - psi climbs d = sum P(i) I^i grad log P(i | S) (:func:`~pipeline_tasks.training.policy.policy_gradient`).

    Where the paper says two things, ``weighing`` offers both:

    - Algorithm 1, lines 12 to 15 (``influence``): w_i = I^i. The weights add up to 1 and are not all positive: a source
      that harms is gone away from. Where most influence is negative, so is the sum S, and D points along the sources
      that harm; where they cancel out, D is long without measure. Where S is 0 there is no update.
    - section 3.3 (``softmax``, the default): w_i = exp(I^i / tau). All weights are positive whatever the signs, and D
      is never longer than the longest way; with tau far above the influences it is their plain mean.

    Beside weights, gradients and moments there are one copy of the weights, one of the moments, D, and the way of the
    source in turn, however many sources there are: the sum in D is rescaled when a larger influence comes.

    Departures: alpha = learning rate makes theta move by about the square of it, as theta^i - theta_t has that factor
    already; ``reptile_rate=1`` is the mean of the tried weights. The paper does not name the rule for psi: here it is
    Adam, by which the unit of the metric does not matter, or ``rule="standardised"``, by which it does not matter
    either how seldom a source is drawn, nor that influences shrink while the model trains. ``metric="calibrated"`` is
    the loss at the temperature at which it is least (:func:`~pipeline_tasks.training.sampling.targets.least_loss`): an
    embedder that is too sure gains most, by the loss at the temperature of its training, from sources that only make it
    less sure, those that harm among them.

    Source:
        Inf-DDS, Algorithm 1, sections 3.2 and 3.3.
    """

    steps: int = Field(1, ge=1, description="l: trial steps on each source")
    metric: Metric = Field(
        "loss", description="metric on the targets: negated InfoNCE: loss or calibrated; or ndcg at 10"
    )
    each_step: bool = Field(False, description="influence is summed over all tried steps, not taken after the last")
    sources: int | None = Field(None, ge=2, description="k: sources tried per decision; empty: all")
    weighing: Weighing = Field("softmax", description="weights of the sources in the update: softmax or influence")
    reward_temperature: float = Field(
        1.0, gt=0, description="temperature tau of that softmax, in the unit of the metric"
    )
    reptile: bool = Field(True, description="trial steps update the weights (Reptile); off: they only measure")
    reptile_rate: float | None = Field(None, gt=0, description="Reptile step size alpha; empty: the learning rate")

    def takes(self, n_sources: int) -> Takes:
        """Steps on the sources that are tried, and scores after them; the sum in D is held meanwhile."""
        tried = min(self.sources or n_sources, n_sources)
        scores = 1 + tried * (self.steps if self.each_step else 1)
        return Takes(tried * self.steps, scores=scores, bytes_a_weight=MARK_BYTES + 4 * self.reptile)

    def decide(self, bench: Bench, state: State, random: np.random.Generator) -> np.ndarray:
        """Algorithm 1, lines 5 to 18."""
        m = len(bench.pool)
        some = np.sort(random.choice(m, min(self.sources or m, m), replace=False))
        descent = bench.descent
        mark, before = descent.mark(), bench.score(self.metric)
        mean = Reptile(self.weighing, self.reward_temperature)
        influences = np.full((m, len(before)), np.nan)
        for i in some:
            influences[i] = 0
            for step in range(self.steps):
                bench.learn(int(i))
                if self.each_step or step == self.steps - 1:
                    influences[i] += bench.score(self.metric) - before
            if self.reptile:
                mean.add(descent.since(mark), float(influences[i].mean()))
            descent.back(mark)
        if self.reptile and (way := mean.way()):
            descent.go(way, self.reptile_rate or descent.rate)
            for part in way:
                part.neg_()
            descent.note(way)
        self.reward(state, some, influences[some].mean(axis=1))
        return influences


class Reptile:
    """D = sum w_i d_i / sum w_i, with w_i the influence of a way d_i, or exp(influence / temperature).

    Source:
        Nichol et al. 2018 for the update; Inf-DDS, Algorithm 1 and section 3.3, for the weights.
    """

    def __init__(self, weighing: Weighing, temperature: float) -> None:
        self._weighing, self._temperature = weighing, temperature
        self._sum: list[Tensor] = []
        self._total, self._top = 0.0, -math.inf

    def add(self, way: Sequence[Tensor], influence: float) -> None:
        """Take in a way, whose tensors may be changed."""
        weight = influence
        if self._weighing == "softmax":
            # In units of the largest weight so far, as exp of a large influence is no number.
            logit = influence / self._temperature
            top = max(self._top, logit)
            shrink, weight = math.exp(self._top - top), math.exp(logit - top)
            self._top, self._total = top, self._total * shrink
            for part in self._sum:
                part.mul_(shrink)
        self._total += weight
        if not self._sum:
            self._sum = [part.mul_(weight) for part in way]
            return
        for part, other in zip(self._sum, way, strict=True):
            part.add_(other, alpha=weight)

    def way(self) -> list[Tensor]:
        """D, for whoever asks once; nothing where the weights add up to 0."""
        return [part.div_(self._total) for part in self._sum] if self._total else []
