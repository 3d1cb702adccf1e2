"""Is the difference luck? In words, for whoever does not read p-values."""

from __future__ import annotations

from pipeline_tasks.evaluation.statistics import SURE, Difference

BETTER, WORSE, LUCK = "better", "worse", "may be luck"
_ROUNDING = 1e-12
ELSEWHERE = " on other passages or judgements"
"""What is said of scores of two evaluations that did not search, or were not judged by, the same."""


def in_words(new: str, old: str, found: Difference) -> str:
    """How much better or worse ``new`` is than ``old``, and whether that may be chance."""
    votes = f"{found.wins:,} of {found.n:,} queries better, {found.losses:,} worse"
    span = f"95% interval {found.low:+.3f} to {found.high:+.3f}; {votes}"
    side = "better" if found.gain > 0 else "worse"
    if abs(found.gain) < _ROUNDING:
        return f"{new} scores as {old} ({span})."
    return f"{new} is {side} than {old} by {abs(found.gain):.3f} ({span}). {_verdict(found)}"


def in_short(found: Difference) -> str:
    """That it is better, that it is worse, or that the difference may be luck.

    It takes both a small p and an interval without zero: the one is about how many queries changed, the other about how
    much they did.
    """
    if found.p < SURE and found.low > 0:
        return BETTER
    return WORSE if found.p_worse < SURE and found.high < 0 else LUCK


def p_of(found: Difference) -> str:
    """``= 0.012``: the p-value of the side that the difference is on; ``< 0.001`` where three digits show nothing."""
    p = found.p if found.gain >= 0 else found.p_worse
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _verdict(found: Difference) -> str:
    p = found.p if found.gain > 0 else found.p_worse
    if in_short(found) != LUCK:
        return f"That is hardly luck (p {p_of(found)}): chance alone would do so {_odds(p)}."
    why = "more queries would tell" if p >= SURE else "the interval has zero in it"
    return f"That may be luck (p {p_of(found)}): {why}."


def _odds(p: float) -> str:
    return f"about once in {float(f'{1 / p:.2g}'):,.0f} times" if p > 1e-4 else "less than once in 10,000 times"
