"""A policy over sources as logits psi, and how rewards change it. Pure arithmetic on numpy arrays."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from pipeline_tasks.core.errors import InputError

Rule = Literal["adam", "standardised", "sgd"]
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


def choose(likely: np.ndarray, chance: float) -> int:
    """The source at which the probabilities, added up in order, pass ``chance``, which is uniform in [0, 1).

    Raises:
        InputError: they are no numbers.
    """
    if not np.isfinite(likely).all():
        raise InputError(
            f"the probabilities of the sources are {likely.tolist()}: what a decision found was no number, or too "
            "large for one; lower the sampler's rate, raise its mu, or lower learning_rate"
        )
    return min(int(np.searchsorted(likely.cumsum(), chance, side="right")), len(likely) - 1)


def softmax(logits: np.ndarray) -> np.ndarray:
    """exp(x) / sum exp(x)."""
    raised = np.exp(logits - logits.max())
    return raised / raised.sum()


def policy_gradient(psi: np.ndarray, some: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """d_psi = sum over i in S of P(i) R_i grad log P(i | S), the direction in which the expected reward grows.

    P(i | S) = P(i) / sum over S of P, so that d_k = P(k) R_k - P(k | S) sum over S of P(i) R_i, and 0 outside of S.
    Where S is everything, this is Algorithm 1, line 17.

    Shapes:
        psi: [m]; some: [s] the sources in S; rewards: [s]; returns [m].

    Source:
        Inf-DDS, Algorithm 1 and section 3.3.
    """
    expected = softmax(psi)[some] * rewards
    found = np.zeros(len(psi))
    found[some] = expected - softmax(psi[some]) * expected.sum()
    return found


def natural_gradient(psi: np.ndarray, some: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """R_k - sum over i in S of P(i | S) R_i in S, and 0 outside of it: the policy gradient without its factor P(k).

    Where S is everything, it is the policy gradient times the inverse of the policy's Fisher information. A source that
    is seldom drawn moves by what it does, not by how seldom that is.

    Shapes:
        as of :func:`policy_gradient`.

    Source:
        Kakade 2001, "A Natural Policy Gradient".
    """
    found = np.zeros(len(psi))
    found[some] = rewards - softmax(psi[some]) @ rewards
    return found


def climb(state: dict[str, list[float]], some: np.ndarray, rewards: np.ndarray, rate: float, rule: Rule) -> None:
    """Move ``psi`` of the state up by the rewards of some sources; the state holds what the rule remembers.

    By the policy gradient as it is (``sgd``), by Adam of it, or by the natural gradient of standardised rewards: in
    units of their own standard deviation, so that each decision counts alike. To the last two the unit of the rewards
    does not matter, and to the last one not that rewards shrink while the model trains.
    """
    psi = np.array(state["psi"])
    if rule == "standardised":
        way = natural_gradient(psi, some, rewards) / (np.std(rewards) if np.ptp(rewards) else math.inf)
    else:
        way = policy_gradient(psi, some, rewards)
    if rule == "adam":
        first = _mean_of(state, "first", way, _BETAS[0])
        way = first / (np.sqrt(_mean_of(state, "second", way**2, _BETAS[1])) + _EPSILON)
    state["updates"] = [state.get("updates", [0.0])[0] + 1]
    state["psi"] = (psi + rate * way).tolist()


def _mean_of(state: dict[str, list[float]], name: str, now: np.ndarray, beta: float) -> np.ndarray:
    """The exponential moving mean of what came under the name, ``now`` the last of it, without bias to 0."""
    (done,) = state.get("updates", [0.0])
    kept = beta * np.array(state.get(name) or np.zeros(len(now))) + (1 - beta) * now
    state[name] = kept.tolist()
    return kept / (1 - beta ** (done + 1))
