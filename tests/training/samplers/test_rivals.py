"""DoGE, DoReMi and MultiDDS on sources that pull a point, against their formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.policy import choose
from pipeline_tasks.training.samplers import sampler
from tests.training.samplers.point import ETA, POOL, SOURCES, TARGETS, Point
from tests.training.samplers.toy import Toy


def walker(point: Point, most: float = 1e9) -> Toy:
    """The same point in numpy, whose gradients are of the length ``most`` at most."""
    toy = Toy(SOURCES, TARGETS, point.theta, np.zeros(4), ETA, ETA, 1, "softmax")
    toy.m = toy.v = np.zeros(3)
    toy.most = most
    return toy


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum()


def gradients(toy: Toy) -> np.ndarray:
    """Those of the sources, and of all targets together, clipped as a step clips them."""
    plain = [*(toy.theta - SOURCES), (toy.theta - TARGETS).sum(axis=0)]
    return np.array([g * min(1, toy.most / np.linalg.norm(g)) for g in plain])


@pytest.mark.parametrize("most", [1e9, 1.0])
def test_doge_is_its_formula(most: float) -> None:
    ours = sampler({"name": "doge", "trial_steps": 5, "mu": 2.0})
    point, state = Point(most), ours.begin(POOL)
    toy, before, chances = walker(point, most), point.theta, np.random.default_rng(3)
    logits, weights, found = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(5):
        *own, wanted = gradients(toy)
        agreement = np.array(own) @ wanted / np.mean([np.linalg.norm(g) for g in own])
        logits, found = logits + agreement / 2.0, found + agreement
        weights += softmax(logits)
        toy.step(choose(softmax(logits), chances.random()))
    influences = ours.decide(point.bench(), state, np.random.default_rng(3))
    # PyTorch adds 1e-6 to the length by which it clips.
    np.testing.assert_allclose(ours.probabilities(POOL, state, 0), weights / 5, rtol=1e-6)
    np.testing.assert_allclose(influences, found[:, None] / 5, rtol=1e-6)
    assert (point.theta == before).all(), "the trial leaves the weights as they were"
    assert np.argmax(state["weights"]) == 0 and np.argmin(state["weights"]) == 1


def test_doge_does_not_depend_on_the_unit_of_losses_that_are_clipped() -> None:
    found = []
    for unit in (1.0, 50.0):
        point = Point(0.1)
        point.unit = unit
        ours = sampler({"name": "doge", "trial_steps": 4})
        state = ours.begin(POOL)
        ours.decide(point.bench(), state, np.random.default_rng(0))
        found.append(state["weights"])
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_doremi_is_its_formula_to_the_last_digits() -> None:
    ours = sampler({"name": "doremi", "trial_steps": 4, "rate": 3.0, "smoothing": 0.1})
    point, state = Point(), ours.begin(POOL)
    before, chances = point.theta, np.random.default_rng(3)

    def losses(toy: Toy) -> np.ndarray:
        return 0.5 * ((toy.theta - SOURCES) ** 2).sum(axis=1)

    reference, proxy = walker(point), walker(point)
    for _ in range(4):
        reference.step(choose(POOL.n_rows / 100, chances.random()))
    a, total = np.full(4, 0.25), np.zeros(4)
    for _ in range(4):
        excess = np.maximum(0, losses(proxy) - losses(reference))
        a = a * np.exp(3.0 * excess)
        a = 0.9 * a / a.sum() + 0.1 / 4
        total += a
        proxy.step(choose(a, chances.random()))
    told = ours.decide(point.bench(), state, np.random.default_rng(3))
    np.testing.assert_allclose(ours.probabilities(POOL, state, 0), total / 4, rtol=1e-9)
    assert np.isnan(told).all() and len(told) == 4, "it looks at no target"
    assert (point.theta == before).all()
    with pytest.raises(InputError, match="the expert's weights are of a, and the rows are of a, b, c, d"):
        sampler({"name": "doremi", "reference": {"name": "expert", "weights": {"a": 1}}}).begin(POOL)


def test_multi_dds_rewards_by_the_cosine_with_the_targets_after_a_step() -> None:
    ours = sampler({"name": "multi_dds", "rule": "sgd", "rate": 0.5})
    point, state = Point(), ours.begin(POOL)
    for source in (2, 0):
        point.learn(source)
    (moments,) = point.descent.optimiser.adam.state.values()
    before, cosines = point.theta, []
    for i in range(4):
        toy = walker(point)
        toy.m, toy.v, toy.t = moments["exp_avg"].numpy(), moments["exp_avg_sq"].numpy(), int(moments["step"])
        own = gradients(toy)[i]
        toy.step(i)
        wanted = gradients(toy)[-1]
        cosines.append(own @ wanted / np.linalg.norm(own) / np.linalg.norm(wanted))
    told = ours.decide(point.bench(), state, np.random.default_rng(0))
    np.testing.assert_allclose(told[:, 0], cosines, rtol=1e-9)
    expected = 0.25 * np.array(cosines)
    np.testing.assert_allclose(state["psi"], np.log(0.25) + 0.5 * (expected - expected.sum() / 4), rtol=1e-9)
    assert (point.theta == before).all()


@pytest.mark.parametrize("name", ["inf_dds", "multi_dds"])
def test_a_start_that_never_draws_a_source_is_refused(name: str) -> None:
    weights = {"a": 1, "b": 2, "c": 0, "d": 0}
    ours = sampler({"name": name, "start": {"name": "expert", "weights": weights}})
    with pytest.raises(InputError, match=r"start='expert' never draws c, d \(2 of 4 sources\), and .* cannot learn to"):
        ours.begin(POOL)
