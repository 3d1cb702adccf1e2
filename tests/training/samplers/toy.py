"""Inf-DDS once more, in numpy, on sources that pull a point: a source's loss is half the squared distance to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass
class Toy:
    """Algorithm 1, line by line; ``s`` is the subsample of section 3.3."""

    sources: np.ndarray
    targets: np.ndarray
    theta: np.ndarray
    psi: np.ndarray
    eta: float
    alpha: float
    steps: int
    weighing: str
    tau: float = 1.0
    psi_rate: float = 0.5
    each_step: bool = False
    most: float = np.inf
    m: np.ndarray = field(default_factory=lambda: np.zeros(0))
    v: np.ndarray = field(default_factory=lambda: np.zeros(0))
    t: int = 0

    def adam(self, theta, m, v, t, gradient, eta):
        m = BETAS[0] * m + (1 - BETAS[0]) * gradient
        v = BETAS[1] * v + (1 - BETAS[1]) * gradient**2
        t += 1
        unbiased = m / (1 - BETAS[0] ** t), v / (1 - BETAS[1] ** t)
        return theta - eta * unbiased[0] / (np.sqrt(unbiased[1]) + EPSILON), m, v, t

    def metric(self, theta):
        return -0.5 * ((theta - self.targets) ** 2).sum(axis=1)

    def step(self, source):
        gradient = self.theta - self.sources[source]
        gradient = gradient * min(1, self.most / np.linalg.norm(gradient))
        moved = self.adam(self.theta, self.m, self.v, self.t, gradient, self.eta)
        self.theta, self.m, self.v, self.t = moved

    def decide(self, s):
        nabla, total, influence = np.zeros_like(self.theta), 0.0, np.zeros((len(s), len(self.targets)))  # line 5
        before = self.metric(self.theta)  # line 6
        for n, i in enumerate(s):  # line 7
            theta, m, v, t = self.theta, self.m, self.v, self.t
            for step in range(self.steps):  # lines 8, 9
                theta, m, v, t = self.adam(theta, m, v, t, theta - self.sources[i], self.eta)
                if self.each_step or step == self.steps - 1:
                    influence[n] += self.metric(theta) - before  # line 10
            weight = influence[n].mean()  # line 11
            if self.weighing == "softmax":
                weight = np.exp(weight / self.tau)  # section 3.3
            nabla, total = nabla + weight * (theta - self.theta), total + weight  # line 12
        mean = nabla / total  # line 14
        self.theta = self.theta + self.alpha * mean  # line 15
        _, self.m, self.v, self.t = self.adam(self.theta, self.m, self.v, self.t, -mean, 0.0)  # line 16
        p = np.exp(self.psi) / np.exp(self.psi).sum()
        within = p[s] / p[s].sum()
        for n, i in enumerate(s):  # line 17, with section 3.3
            log_gradient = -np.array([within[list(s).index(k)] if k in s else 0 for k in range(len(p))])
            log_gradient[i] += 1
            self.psi = self.psi + self.psi_rate * p[i] * influence[n].mean() * log_gradient  # line 18
        return influence
