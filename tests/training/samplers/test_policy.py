"""The rules by which a policy climbs."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.policy import Rule, choose, climb, natural_gradient, policy_gradient, softmax

PSI = np.log([0.01, 0.04, 0.35, 0.6])
REWARDS = np.array([0.4, -0.1, 0.2, 0.1])
ALL = np.arange(4)


def test_natural_gradient_is_the_policy_gradient_by_the_inverse_of_the_fisher_information() -> None:
    likely = softmax(PSI)
    fisher = np.diag(likely) - np.outer(likely, likely)
    found = natural_gradient(PSI, ALL, REWARDS)
    np.testing.assert_allclose(fisher @ found, policy_gradient(PSI, ALL, REWARDS), atol=1e-15)


def test_natural_gradient_is_0_outside_of_what_was_tried_and_0_in_the_mean_within() -> None:
    some = np.array([0, 2, 3])
    found = natural_gradient(PSI, some, REWARDS[some])
    assert found[1] == 0
    assert softmax(PSI)[some] @ found[some] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("rule", get_args(Rule))
def test_sources_that_are_never_drawn_may_be_tried_all_the_same(rule: Rule) -> None:
    state = {"psi": [0.0, -800.0, -900.0]}
    assert softmax(np.array(state["psi"])).tolist() == [1, 0, 0]
    climb(state, np.array([1, 2]), np.array([0.1, 0.4]), 0.5, rule)
    assert np.isfinite(state["psi"]).all()
    assert (state["psi"][2] > -900) == (rule == "standardised")


def test_what_is_no_number_is_never_drawn_by() -> None:
    assert [choose(np.array([0.25, 0.75]), chance) for chance in (0, 0.2499, 0.25, 0.999999)] == [0, 0, 1, 1]
    with pytest.raises(
        InputError, match=r"the probabilities of the sources are \[nan, nan\].*lower the sampler's rate"
    ):
        choose(np.full(2, np.nan), 0.5)


@pytest.mark.parametrize("rule", ["adam", "standardised"])
def test_the_unit_of_the_rewards_does_not_matter(rule: Rule) -> None:
    ways: list[list[list[float]]] = []
    for unit in (1.0, 1000.0):
        state = {"psi": PSI.tolist()}
        ways.append([])
        for turn in range(3):
            climb(state, ALL, unit * np.roll(REWARDS, turn), 0.2, rule)
            ways[-1].append(state["psi"])
    np.testing.assert_allclose(ways[0], ways[1], rtol=1e-4)


def test_a_source_that_is_seldom_drawn_overtakes_in_a_few_standardised_steps() -> None:
    psi = {}
    for rule in ("sgd", "standardised"):
        state = {"psi": PSI.tolist()}
        for _ in range(12):
            climb(state, ALL, REWARDS, 0.3, rule)
        psi[rule] = np.array(state["psi"])
    assert psi["standardised"].argmax() == 0
    assert psi["standardised"].argsort().tolist() == [1, 3, 2, 0]
    assert psi["sgd"].argmax() == 3


def test_what_is_tried_alone_moves_nothing() -> None:
    state = {"psi": PSI.tolist()}
    climb(state, np.array([2]), np.array([0.3]), 0.5, "standardised")
    assert state["psi"] == PSI.tolist()


@pytest.mark.parametrize("rewards", [[0.3], [0.2, 0.2, 0.2]])
def test_rewards_that_are_alike_move_nothing(rewards: list[float]) -> None:
    some = np.arange(len(rewards))
    state = {"psi": PSI.tolist()}
    climb(state, some, np.array(rewards), 0.5, "standardised")
    np.testing.assert_allclose(state["psi"], PSI, atol=1e-12)


def test_each_decision_counts_alike_however_small_its_rewards_are() -> None:
    early, late = ({"psi": PSI.tolist()} for _ in range(2))
    climb(early, ALL, REWARDS, 0.5, "standardised")
    climb(late, ALL, REWARDS[::-1] * 1e6, 0.5, "standardised")
    before = late["psi"]
    climb(late, ALL, REWARDS * 1e-6, 0.5, "standardised")
    unit = natural_gradient(np.array(before), ALL, REWARDS) / REWARDS.std()
    np.testing.assert_allclose(np.array(late["psi"]) - before, 0.5 * unit, rtol=1e-9)


def test_adam_is_adam_of_the_policy_gradient() -> None:
    state, psi, first, second = {"psi": PSI.tolist()}, PSI.copy(), np.zeros(4), np.zeros(4)
    for turn in range(4):
        some = np.array([0, 2, 3]) if turn == 2 else ALL
        rewards = np.roll(REWARDS, turn)[: len(some)]
        way = policy_gradient(psi, some, rewards)
        first, second = 0.9 * first + 0.1 * way, 0.999 * second + 0.001 * way**2
        unbiased = first / (1 - 0.9 ** (turn + 1)), second / (1 - 0.999 ** (turn + 1))
        psi = psi + 0.2 * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        climb(state, some, rewards, 0.2, "adam")
        np.testing.assert_allclose(state["psi"], psi, rtol=1e-12)
