"""What a build of triplets came to: how hard the negatives are, and why candidates were passed over."""

from __future__ import annotations

import numpy as np

from pipeline_tasks.curation.negative_rules import SKIPS, Chosen
from pipeline_tasks.curation.wanted import Wanted

_PERCENTILES = (5, 25, 50, 75, 95)


def summary(wanted: Wanted, chosen: Chosen, n_negatives: int) -> dict[str, float]:
    """Counters of a build, for the lineage.

    ``positive``, ``negative`` and ``gap`` (a positive's cosine minus its negative's) come with ``_score_min``,
    ``_mean``, ``_max`` and percentiles ``_p05`` to ``_p95``; ``skipped_<rule>`` counts candidates; each intent adds
    ``triplets/<intent>``, ``negatives/<intent>``, ``gap_score_mean/<intent>`` and ``skipped_<rule>/<intent>``.
    """
    there = np.arange(chosen.codes.shape[1]) < np.maximum(chosen.n, 0)[:, None]
    positive = wanted.asked.positive_score
    gaps = positive[:, None] - chosen.scores
    kept = chosen.n > 0
    found: dict[str, float] = {
        "negatives": int(there.sum()),
        "short_queries": int((kept & (chosen.n < n_negatives)).sum()),
    }
    for name, values in (("positive", positive[kept]), ("negative", chosen.scores[there]), ("gap", gaps[there])):
        found.update(_spread(f"{name}_score", values))
    found.update({f"skipped_{rule}": int(n) for rule, n in zip(SKIPS, chosen.skipped.sum(0), strict=True)})
    for number, intent in enumerate(wanted.intents):
        mine = wanted.asked.intent == number
        found[f"triplets/{intent}"] = int((kept & mine).sum())
        found[f"negatives/{intent}"] = int(there[mine].sum())
        if there[mine].any():
            found[f"gap_score_mean/{intent}"] = _round(gaps[mine][there[mine]].mean(dtype=np.float64))
        for rule, n in zip(SKIPS, chosen.skipped[number], strict=True):
            found[f"skipped_{rule}/{intent}"] = int(n)
    return found


def _spread(name: str, values: np.ndarray) -> dict[str, float]:
    if not len(values):
        return {}
    found = {"min": values.min(), "mean": values.mean(dtype=np.float64), "max": values.max()}
    levels = np.percentile(values, _PERCENTILES)
    found |= {f"p{level:02d}": value for level, value in zip(_PERCENTILES, levels, strict=True)}
    return {f"{name}_{what}": _round(value) for what, value in found.items()}


def _round(value: float) -> float:
    return round(float(value), 4)
