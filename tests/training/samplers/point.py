"""A point that sources pull: a source's loss is half the squared distance to it, so its gradient is the way from it."""

from __future__ import annotations

import numpy as np
import torch

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampler import Pool

SOURCES = np.array([[2.0, 1.0, 0.0], [-2.0, -1.0, 1.0], [0.5, -3.0, 0.3], [0.1, 0.2, -0.1]])
TARGETS = np.array([[2.0, 2.0, 0.5], [1.5, 0.5, 0.0]])
POOL = Pool(["a", "b", "c", "d"], np.array([10, 20, 30, 40]), 100)
ETA = 0.1


class Point:
    """A model of one weight, and the bench of a sampler over the quadratics, in any unit."""

    unit = 1.0

    def __init__(self, max_grad_norm: float = 1e9) -> None:
        self.model = torch.nn.Module()
        self.model.theta = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64))
        params = TrainParams(weight_decay=0, learning_rate=ETA, max_grad_norm=max_grad_norm, device="cpu")
        self.descent = Descent(self.model, params)

    @property
    def theta(self) -> np.ndarray:
        return self.model.theta.detach().numpy().copy()

    def pull(self, place: np.ndarray) -> float:
        loss = self.unit * 0.5 * ((self.model.theta - torch.from_numpy(place)) ** 2).sum()
        loss.backward()
        return loss.item()

    def learn(self, source: int) -> float:
        return self.descent.learn(lambda: self.pull(SOURCES[source]), np.zeros(0), 0)

    def score(self, metric: str) -> np.ndarray:
        return -0.5 * ((self.theta - TARGETS) ** 2).sum(axis=1)

    def bench(self) -> Bench:
        return Bench(
            POOL,
            self.descent,
            self.learn,
            lambda source: lambda: self.pull(SOURCES[source]),
            lambda: sum(self.pull(place) for place in TARGETS),
            self.score,
            lambda source: 0.5 * ((self.theta - SOURCES[source]) ** 2).sum(),
        )
