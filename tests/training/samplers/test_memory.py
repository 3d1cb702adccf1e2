"""What a decision holds beside weights, gradients and moments is what the dry run counts."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from pipeline_tasks.training.bench import Bench
from pipeline_tasks.training.descent import Descent
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampler import Pool
from pipeline_tasks.training.samplers import sampler

N = 1009


@pytest.fixture(autouse=True)
def only_what_comes():
    """What was there before is left out of all counting, which then takes no time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Row:
    """A model of one row of weights, and a bench over it that counts what is held whenever there is a gradient."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(N, 1, bias=False)
        self.descent = Descent(self.model, TrainParams(device="cpu"))
        self.held: list[int] = []
        self.at_scores: list[int] = []

    def learn(self, source: int) -> float:
        return self.descent.learn(lambda: self.pull(source), np.zeros(0), 0)

    def pull(self, source: float) -> float:
        loss = ((self.model.weight - source) ** 2).mean()
        loss.backward()
        gradient = self.model.weight.grad
        self.held.append(copies_of_weights())
        del gradient
        return loss.item()

    def score(self, metric: str) -> np.ndarray:
        self.at_scores.append(copies_of_weights())
        return np.zeros(1)

    def bench(self, n_sources: int) -> Bench:
        pool = Pool([f"{i}" for i in range(n_sources)], np.full(n_sources, 10), 100)
        of_source = lambda source: lambda: self.pull(source)  # noqa: E731
        return Bench(pool, self.descent, self.learn, of_source, lambda: self.pull(0.5), self.score, lambda source: 0.0)


def copies_of_weights() -> int:
    """Tensors of N numbers that are held anywhere."""
    gc.collect()
    tensors = (torch.Tensor, torch.nn.Parameter)
    return len({one.data_ptr() for one in gc.get_objects() if type(one) in tensors and one.numel() == N})


@pytest.mark.parametrize("n_sources", [2, 30])
@pytest.mark.parametrize("name", ["inf_dds", "multi_dds", "doge", "doremi"])
def test_a_decision_holds_what_is_declared_however_many_sources(name: str, n_sources: int) -> None:
    row = Row()
    row.learn(0)
    bench = row.bench(n_sources)
    ours = sampler({"name": name} | {"inf_dds": {"steps": 3}, "multi_dds": {}}.get(name, {"trial_steps": 3}))
    ours.decide(bench, ours.begin(bench.pool), np.random.default_rng(0))
    assert max(row.held) == 4 + ours.takes(n_sources).bytes_a_weight / 4, "four: weights, two moments, a gradient"


@pytest.mark.parametrize("n_sources", [2, 30])
def test_gradients_are_given_up_before_a_score(n_sources: int) -> None:
    """Weights and two moments, a copy of these, and the mean of the ways."""
    row = Row()
    row.learn(0)
    bench = row.bench(n_sources)
    ours = sampler({"name": "inf_dds", "steps": 3})
    ours.decide(bench, ours.begin(bench.pool), np.random.default_rng(0))
    assert row.at_scores == [6, 6] + [7] * (n_sources - 1)
