"""Inf-DDS does what Algorithm 1 and section 3.3 say, line by line, and leaves nothing of what it only tried."""

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
from tests.training.samplers.toy import Toy

SOURCES = np.array([[2.0, 1.0, 0.0], [-2.0, -1.0, 1.0], [0.5, -3.0, 0.3], [0.1, 0.2, -0.1]])
TARGETS = np.array([[2.0, 2.0, 0.5], [1.5, 0.5, 0.0]])
POOL = Pool(["a", "b", "c", "d"], np.array([10, 20, 30, 40]), 100)
ETA = 0.1


class Point:
    """A model of one weight, and the bench of a sampler over the quadratics."""

    def __init__(self) -> None:
        self.model = torch.nn.Module()
        self.model.theta = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64))
        params = TrainParams(weight_decay=0, learning_rate=ETA, max_grad_norm=1e9, device="cpu")
        self.descent = Descent(self.model, params)

    @property
    def theta(self) -> np.ndarray:
        return self.model.theta.detach().numpy().copy()

    def pull(self, place: np.ndarray) -> float:
        loss = 0.5 * ((self.model.theta - torch.from_numpy(place)) ** 2).sum()
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


@pytest.mark.parametrize("weighing", ["influence", "softmax"])
@pytest.mark.parametrize(("k", "steps", "alpha"), [(None, 1, None), (None, 3, 1.0), (2, 2, 0.5)])
def test_it_is_algorithm_1_to_the_last_digits(weighing: str, k: int | None, steps: int, alpha: float | None) -> None:
    ours = sampler({"name": "inf_dds", "start": "proportional", "steps": steps, "sources": k, "weighing": weighing,
                    "reptile_rate": alpha, "reward_temperature": 0.3, "rule": "sgd", "rate": 0.5})  # fmt: skip
    point, state = Point(), ours.begin(POOL)
    toy = Toy(SOURCES, TARGETS, point.theta, np.log(POOL.n_rows / 100), ETA, alpha or ETA, steps, weighing, 0.3)
    toy.m = toy.v = np.zeros(3)
    for decision in range(3):
        for source in (decision, 3):
            point.learn(source)
            toy.step(source)
        chosen = np.sort(np.random.default_rng(decision).choice(4, k or 4, replace=False))
        found = ours.decide(point.bench(), state, np.random.default_rng(decision))
        np.testing.assert_allclose(found[chosen], toy.decide(chosen), rtol=1e-12)
        assert np.isnan(np.delete(found, chosen, axis=0)).all()
        np.testing.assert_allclose(point.theta, toy.theta, rtol=1e-12)
        (moments,) = point.descent.optimiser.adam.state.values()
        np.testing.assert_allclose(moments["exp_avg"], toy.m, rtol=1e-10)
        np.testing.assert_allclose(moments["exp_avg_sq"], toy.v, rtol=1e-10)
        assert moments["step"] == toy.t
        likely = np.exp(toy.psi) / np.exp(toy.psi).sum()
        np.testing.assert_allclose(ours.probabilities(POOL, state, 0), likely, rtol=1e-12)


def test_without_the_update_weights_and_moments_are_those_of_before() -> None:
    ours = sampler({"name": "inf_dds", "steps": 4, "reptile": False})
    point = Point()
    for learned in (False, True):
        before = point.theta, [dict(moments) for moments in point.descent.mark().moments]
        ours.decide(point.bench(), ours.begin(POOL), np.random.default_rng(0))
        assert (point.theta == before[0]).all()
        after = point.descent.mark().moments
        assert [{k: v.tolist() for k, v in m.items()} for m in after] == [
            {k: v.tolist() for k, v in m.items()} for m in before[1]
        ]
        if not learned:
            point.learn(0)


def test_the_source_that_helps_gains_and_the_one_that_harms_loses() -> None:
    ours = sampler({"name": "inf_dds", "reptile": False, "rule": "sgd", "rate": 2.0})
    point, state = Point(), ours.begin(POOL)
    for _ in range(10):
        ours.decide(point.bench(), state, np.random.default_rng(0))
    likely = ours.probabilities(POOL, state, 0)
    assert likely[0] == likely.max() > 0.4
    assert likely[1] == likely.min() < 0.1


def test_influences_that_cancel_out_move_nothing() -> None:
    from pipeline_tasks.training.samplers.inf_dds import Reptile

    mean = Reptile("influence", 1.0)
    mean.add([torch.ones(2)], 0.5)
    mean.add([torch.ones(2)], -0.5)
    assert mean.way() == []


def test_a_large_influence_is_a_number_all_the_same() -> None:
    from pipeline_tasks.training.samplers.inf_dds import Reptile

    mean = Reptile("softmax", 1e-3)
    mean.add([torch.zeros(2)], -2.0)
    mean.add([torch.ones(2)], 3.0)
    assert mean.way()[0].tolist() == [1.0, 1.0]


def copies_of_weights(n: int) -> int:
    """Tensors of n numbers that are held anywhere."""
    gc.collect()
    tensors = (torch.Tensor, torch.nn.Parameter)
    return len({one.data_ptr() for one in gc.get_objects() if type(one) in tensors and one.numel() == n})


@pytest.mark.parametrize("n_sources", [2, 30])
def test_memory_is_that_of_one_optimiser_state_however_many_sources(n_sources: int) -> None:
    """Weights and two moments, a copy of these, and the mean of the ways: gradients are given up after a step."""
    n = 1009
    model = torch.nn.Linear(n, 1, bias=False)
    descent = Descent(model, TrainParams(device="cpu"))
    held: list[int] = []

    def learn(source: int) -> float:
        return descent.learn(lambda: pull(source), np.zeros(0), 0)

    def pull(source: int) -> float:
        loss = ((model.weight - source) ** 2).mean()
        loss.backward()
        return loss.item()

    def score(metric: str) -> np.ndarray:
        held.append(copies_of_weights(n))
        return np.zeros(1)

    pool = Pool([f"{i}" for i in range(n_sources)], np.full(n_sources, 10), 100)
    bench = Bench(pool, descent, learn, lambda source: lambda: 0.0, lambda: 0.0, score, lambda source: 0.0)
    learn(0)
    ours = sampler({"name": "inf_dds", "steps": 3})
    ours.decide(bench, ours.begin(pool), np.random.default_rng(0))
    assert len(held) == 1 + n_sources
    assert held[1:] == [6] + [7] * (n_sources - 1)
