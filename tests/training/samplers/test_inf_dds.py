"""Inf-DDS does what Algorithm 1 and section 3.3 say, line by line, and leaves nothing of what it only tried."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline_tasks.training.samplers import sampler
from tests.training.samplers.point import ETA, POOL, SOURCES, TARGETS, Point
from tests.training.samplers.toy import Toy


@pytest.mark.parametrize("weighing", ["influence", "softmax"])
@pytest.mark.parametrize("each_step", [False, True])
@pytest.mark.parametrize(("k", "steps", "alpha"), [(None, 1, None), (None, 3, 1.0), (2, 2, 0.5)])
def test_it_is_algorithm_1_to_the_last_digits(
    weighing: str, k: int | None, steps: int, alpha: float | None, each_step: bool
) -> None:
    ours = sampler({"name": "inf_dds", "start": "proportional", "steps": steps, "sources": k, "weighing": weighing,
                    "reptile_rate": alpha, "reward_temperature": 0.3, "rule": "sgd", "rate": 0.5,
                    "each_step": each_step})  # fmt: skip
    point, state = Point(), ours.begin(POOL)
    toy = Toy(SOURCES, TARGETS, point.theta, np.log(POOL.n_rows / 100), ETA, alpha or ETA, steps, weighing, 0.3)
    toy.each_step = each_step
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
