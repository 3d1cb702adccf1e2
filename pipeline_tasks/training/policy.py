"""A policy over sources as logits psi, and how rewards change it. Pure arithmetic on numpy arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np

Rule = Literal["adam", "sgd"]
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


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
    likely = softmax(psi)[some]
    expected = likely * rewards
    found = np.zeros(len(psi))
    found[some] = expected - likely / likely.sum() * expected.sum()
    return found


def climb(state: dict[str, list[float]], gradient: np.ndarray, rate: float, rule: Rule) -> None:
    """Move ``psi`` of the state up the gradient: by Adam, whose moments the state holds as well, or as it is."""
    if rule == "adam":
        first, second = (np.array(state.get(name) or np.zeros(len(gradient))) for name in ("first", "second"))
        (done,) = state.get("updates", [0.0])
        first = _BETAS[0] * first + (1 - _BETAS[0]) * gradient
        second = _BETAS[1] * second + (1 - _BETAS[1]) * gradient**2
        state.update(first=first.tolist(), second=second.tolist(), updates=[done + 1])
        unbiased = [moment / (1 - beta ** (done + 1)) for moment, beta in zip((first, second), _BETAS, strict=True)]
        gradient = unbiased[0] / (np.sqrt(unbiased[1]) + _EPSILON)
    state["psi"] = (np.array(state["psi"]) + rate * gradient).tolist()
