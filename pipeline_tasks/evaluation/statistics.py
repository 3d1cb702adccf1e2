"""How sure a score is, and whether the difference of two is luck.

A score is the mean over intents of the mean over their queries, so every query has a weight; queries of an intent are
drawn among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
_NUMBERS_AT_ONCE = 1 << 22
COUNTED = 50
"""Queries that differ, up to which p is exact."""
SURE = 0.05
"""A difference with a smaller p, whose interval does not hold 0, is called none of luck."""


def weights(intents: Sequence[str]) -> np.ndarray:
    """What each query adds to the mean over intents.

    Shapes: returns [q], of sum 1.
    """
    names, of_query, counts = np.unique(np.asarray(intents), return_inverse=True, return_counts=True)
    return 1 / (len(names) * counts[of_query])


def interval(values: np.ndarray, intents: Sequence[str], share: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over intents: queries of each intent drawn anew, with replacement.

    Give it differences of two systems, query by query, and it is the paired interval of their difference. An intent of
    one query differs from it as queries of the other intents do from their mean: alone it would be taken for certain.

    Shapes: values [q].

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 8 and 13.
    """
    rng = np.random.default_rng(seed)
    of_query, values = np.asarray(intents), np.asarray(values, np.float64)
    names, apart = np.unique(of_query), _apart(values, of_query)
    means = np.zeros(DRAWS)
    for name in names:
        group = values[of_query == name]
        if len(group) == 1 and len(apart):
            means += group[0] + rng.choice(apart, DRAWS)
            continue
        at_once = max(1, _NUMBERS_AT_ONCE // len(group))
        for start in range(0, DRAWS, at_once):
            drawn = rng.integers(0, len(group), (min(at_once, DRAWS - start), len(group)))
            means[start : start + at_once] += group[drawn].mean(axis=1)
    low, high = np.quantile(means / len(names), [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _apart(values: np.ndarray, intents: np.ndarray) -> np.ndarray:
    """How far queries are from the mean of their intent; where each has one query, from the mean of all."""
    groups = [values[intents == name] for name in np.unique(intents)]
    several = [group for group in groups if len(group) > 1] or ([values] if len(values) > 1 else [])
    of_sample = [(group - group.mean()) * np.sqrt(len(group) / (len(group) - 1)) for group in several]
    return np.concatenate([np.zeros(0), *of_sample])


def p_greater(one: np.ndarray, other: np.ndarray) -> float:
    """How often chance alone would favour ``one`` as much as it is: one-tailed Wilcoxon signed-rank test.

    Queries that score alike say nothing and are left out; 1 where all do. Up to 50 that differ, every way to hand out
    the signs is counted, ties as they are; above it is the normal approximation.

    Shapes: one, other [q], of the same queries.

    Source: Wilcoxon 1945; DMRetriever, Table 2; Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods,
        3.1.
    """
    from scipy.stats import rankdata, wilcoxon

    differences = np.round(np.asarray(one, np.float64) - np.asarray(other, np.float64), 12)
    differences = differences[differences != 0]
    if not len(differences):
        return 1.0
    if len(differences) > COUNTED:
        return float(wilcoxon(differences, alternative="greater", method="approx").pvalue)
    doubled = np.rint(2 * rankdata(np.abs(differences))).astype(np.int64)
    return float(_sums(doubled)[doubled[differences > 0].sum() :].sum())


def _sums(ranks: np.ndarray) -> np.ndarray:
    """How likely each sum of those ranks is that a fair coin keeps.

    Shapes: ranks [n] whole numbers; returns [ranks.sum() + 1].
    """
    likely = np.zeros(ranks.sum() + 1)
    likely[0] = 1.0
    for rank in ranks:
        likely[rank:] = (likely[rank:] + likely[:-rank]) / 2
        likely[:rank] /= 2
    return likely


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p-values, raised for having asked several questions.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = np.argsort(p_values, kind="stable")
    raised = np.asarray(p_values, np.float64)[order] * np.arange(len(p_values), 0, -1)
    found = np.empty(len(p_values))
    found[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return [float(value) for value in found]


@dataclass(frozen=True)
class Difference:
    """One system against another, on the same queries.

    Attributes:
        n: queries.
        gain: score of the one minus score of the other.
        low: end of its 95% interval.
        high: other end.
        p: that the one is no better; see :func:`p_greater`.
        p_worse: that it is no worse.
        wins: queries that it scores higher on.
        losses: queries that it scores lower on.
    """

    n: int
    gain: float
    low: float
    high: float
    p: float
    p_worse: float
    wins: int
    losses: int

    def in_words(self) -> str:
        """Whether it is luck; for no, the test and the interval must agree."""
        on = f"on {self.n} queries: {self.wins} better, {self.losses} worse"
        if self.p < SURE and self.low > 0:
            return f"better, and hardly by luck (p = {self.p:.2g}, {on})"
        if self.p_worse < SURE and self.high < 0:
            return f"worse, and hardly by luck (p = {self.p_worse:.2g}, {on})"
        return f"no difference that could not be luck (p = {self.p:.2g}, {on})"


def compare(one: np.ndarray, other: np.ndarray, intents: Sequence[str]) -> Difference:
    """``one`` against ``other``, whose values are of the same queries in the same order.

    Shapes: one, other [q].
    """
    differences = np.asarray(one, np.float64) - np.asarray(other, np.float64)
    low, high = interval(differences, intents)
    wins, losses = (int((np.round(sign * differences, 12) > 0).sum()) for sign in (1, -1))
    p, p_worse = p_greater(one, other), p_greater(other, one)
    return Difference(len(differences), float(weights(intents) @ differences), low, high, p, p_worse, wins, losses)


def against(values: Mapping[str, np.ndarray], baseline: str, intents: Sequence[str]) -> dict[str, Difference]:
    """Every other system against ``baseline``; their p and p_worse are raised for their number (Holm)."""
    found = {name: compare(own, values[baseline], intents) for name, own in values.items() if name != baseline}
    raised = zip(*(holm([getattr(d, side) for d in found.values()]) for side in ("p", "p_worse")), strict=True)
    return {
        name: Difference(**{**vars(difference), "p": p, "p_worse": p_worse})
        for (name, difference), (p, p_worse) in zip(found.items(), raised, strict=True)
    }
