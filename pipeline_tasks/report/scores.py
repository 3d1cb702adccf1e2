"""The scores of one evaluation: every system by intent, with intervals, and whether a difference is luck."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.evaluation.statistics import Difference, against, compare, interval, weights
from pipeline_tasks.report.subject import Ask

AVERAGE = "average"
_METRICS = "SELECT DISTINCT metric FROM query_scores WHERE dataset = ? AND version = ?"
_SCORES = """
SELECT system, model_version, query_id, intent, score FROM query_scores
WHERE dataset = ? AND version = ? AND metric = ? ORDER BY query_id
"""
_STARTS = """
WITH RECURSIVE chain AS (
    SELECT DISTINCT model_version AS model, model_version AS ref FROM evaluated_queries
    WHERE dataset = ? AND version = ? AND model_version <> ''
    UNION
    SELECT model, i.input_dataset || '@' || i.input_version
    FROM chain JOIN version_inputs i ON i.dataset || '@' || i.version = ref AND i.input_name = 'init'
)
SELECT model, value AS backbone FROM chain JOIN params p ON p.dataset || '@' || p.version = ref
WHERE p.name = 'backbone' AND p.value LIKE '{%'
"""
_BEFORE = """
SELECT e.dataset || '@' || e.version AS ref, e.system
FROM evaluated_queries e
JOIN versions v USING (dataset, version)
JOIN versions m ON m.dataset || '@' || m.version = e.model_version
JOIN versions mine ON mine.dataset || '@' || mine.version = ?
WHERE e.dataset = ? AND split_part(e.system, '@', 1) = ? AND m.created_at < mine.created_at
GROUP BY e.dataset, e.version, e.system
ORDER BY max(m.created_at) DESC, ref = ? DESC, max(v.created_at) DESC LIMIT 1
"""


@dataclass(frozen=True)
class Score:
    """A mean over queries and its 95% interval."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Scores:
    """One evaluation by one metric.

    Attributes:
        ref: ``eval/<set>@version``.
        metric: for example ndcg@10.
        by_system: system -> query id -> score.
        intents: query id -> intent.
        models: system -> ``dataset@version`` of a trained model, else empty.
        starts: ``dataset@version`` of a trained model -> name of the registered model that it began as.
    """

    ref: str
    metric: str
    by_system: Mapping[str, Mapping[str, float]]
    intents: Mapping[str, str]
    models: Mapping[str, str]
    starts: Mapping[str, str]

    @property
    def set_name(self) -> str:
        """The set's name, without the folder of all evaluations."""
        return Ref.parse(self.ref).dataset.removeprefix("eval/")

    @cached_property
    def kinds(self) -> list[str]:
        """All intents in order."""
        return sorted(set(self.intents.values()))

    @cached_property
    def counts(self) -> dict[str, int]:
        """Queries of all intents, as ``average``, and of each."""
        asked = list(self.intents.values())
        return {AVERAGE: len(asked)} | {kind: asked.count(kind) for kind in self.kinds}

    @cached_property
    def table(self) -> dict[str, dict[str, Score]]:
        """System -> intent, and the average over intents -> score; the best average first."""
        kinds = (AVERAGE, *self.kinds)
        rows = {system: {kind: self.score(system, kind) for kind in kinds} for system in self.by_system}
        return dict(sorted(rows.items(), key=lambda item: -item[1][AVERAGE].mean))

    def score(self, system: str, kind: str = AVERAGE) -> Score:
        """What ``system`` scores on the queries of an intent, or on all."""
        chosen = [query_id for query_id, intent in self.intents.items() if kind in (AVERAGE, intent)]
        values, intents = self._values(system, chosen), [self.intents[query_id] for query_id in chosen]
        return Score(float(weights(intents) @ values), *interval(values, intents), len(chosen))

    def differences(self, system: str) -> dict[str, Difference]:
        """``system`` against every other one, the p-values raised for their number; the best of the others first."""
        chosen = list(self.intents)
        values = {name: -self._values(name, chosen) for name in self.table}  # against() asks what the others gain
        return against(values, system, [self.intents[query_id] for query_id in chosen])

    def against(self, new: str, old: str, other: Scores | None = None) -> Difference:
        """How ``new`` differs from ``old`` (of ``other``, an evaluation on the same set), on the queries of both."""
        where = other or self
        shared = [query_id for query_id in self.intents if query_id in where.intents]
        kinds = [self.intents[query_id] for query_id in shared]
        return compare(self._values(new, shared), where._values(old, shared), kinds)

    def _values(self, system: str, query_ids: Sequence[str]) -> np.ndarray:
        return np.array([self.by_system[system][query_id] for query_id in query_ids])

    def called(self, model: str) -> str:
        """What the evaluation calls a trained version; empty where it has none of that name."""
        return next((name for name, ref in self.models.items() if ref and ref == model), "")

    def start_of(self, system: str) -> str:
        """The system that a trained one started from; empty where it was not evaluated."""
        names = (f"{system.partition('/')[0]}/untrained", self.starts.get(self.models.get(system, ""), ""))
        return next((name for name in names if name in self.by_system and name != system), "")

    def best_other(self, system: str) -> str:
        """The best of those in which nothing is that was trained here, ``system``'s start left out, too."""
        trained, start = [name for name, ref in self.models.items() if ref], self.start_of(system)
        return next((n for n in self.table if n != start and not any(one in n for one in trained)), "")


def read(ask: Ask, ref: str) -> Scores:
    """The evaluation ``ref`` by its NDCG@10, or else by what comes nearest.

    Raises:
        InputError: it has no scores.
    """
    at = Ref.parse(ref)
    metrics = sorted(row["metric"] for row in ask(_METRICS, at.dataset, at.version))
    if not metrics:
        raise InputError(f"{ref} has no score of any query; run evaluate_retriever again")
    metric = min(metrics, key=lambda name: (name != "ndcg@10", not name.startswith("ndcg@"), name))
    by_system: dict[str, dict[str, float]] = {}
    intents, models = {}, {}
    for row in ask(_SCORES, at.dataset, at.version, metric):
        by_system.setdefault(row["system"], {})[row["query_id"]] = row["score"]
        intents[row["query_id"]] = row["intent"]
        models[row["system"]] = row["model_version"] or ""
    starts = {row["model"]: json.loads(row["backbone"]).get("name", "") for row in ask(_STARTS, at.dataset, at.version)}
    return Scores(ref, metric, by_system, intents, models, starts)


def before(ask: Ask, scores: Scores, system: str) -> tuple[Scores, str] | None:
    """The version before, as an evaluation on the same set and what it calls it; None where none shares a query."""
    set_of_both = Ref.parse(scores.ref).dataset
    found = ask(_BEFORE, scores.models[system], set_of_both, system.partition("@")[0], scores.ref)
    older = [(read(ask, row["ref"]), row["system"]) for row in found]
    return next((pair for pair in older if scores.intents.keys() & pair[0].intents.keys()), None)
