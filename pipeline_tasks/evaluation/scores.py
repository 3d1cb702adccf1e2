"""Who scores what on a judged set, how sure that is, and what of it is luck: an evaluation by one measure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.p_mrr import P_MRR
from pipeline_tasks.evaluation.statistics import Difference, against, compare, interval, weights

AVERAGE = "average"
_COLUMNS = ["system", "model_version", "query_id", "intent", "scores"]


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
        starts: ``dataset@version`` of a trained model -> name of the registered model that it began as, where that was
            looked up.
        untrained: name of the registered model that the untrained system is, where that was looked up.
    """

    ref: str
    metric: str
    by_system: Mapping[str, Mapping[str, float]]
    intents: Mapping[str, str]
    models: Mapping[str, str]
    starts: Mapping[str, str] = field(default_factory=dict)
    untrained: str = ""

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
        return dict(sorted(rows.items(), key=lambda item: (-item[1][AVERAGE].mean, item[0])))

    def score(self, system: str, kind: str = AVERAGE) -> Score:
        """What ``system`` scores on the queries of an intent, or on all; an interval ends where scores do."""
        chosen = [query_id for query_id, intent in self.intents.items() if kind in (AVERAGE, intent)]
        values, intents = self.values(system, chosen), [self.intents[query_id] for query_id in chosen]
        low, high = np.clip(interval(values, intents), -1 if self.metric == P_MRR else 0, 1)
        return Score(float(weights(intents) @ values), float(low), float(high), len(chosen))

    def mean(self, system: str) -> float:
        """The mean of :meth:`score` on all queries, without its interval, which takes long to draw."""
        return float(weights(list(self.intents.values())) @ self.values(system))

    def values(self, system: str, query_ids: Sequence[str] | None = None) -> np.ndarray:
        """The scores of these queries, or of all.

        Shapes: returns [q].
        """
        asked = self.intents if query_ids is None else query_ids
        return np.array([self.by_system[system][query_id] for query_id in asked])

    def gains(self, baseline: str, systems: Iterable[str] = ()) -> dict[str, Difference]:
        """What ``systems``, or all others, gain over ``baseline``, their p-values raised for their number."""
        values = {name: self.values(name) for name in (*(systems or self.table), baseline)}
        return against(values, baseline, list(self.intents.values()))

    def differences(self, system: str) -> dict[str, Difference]:
        """``system`` against every other one, the p-values raised for their number; the best of the others first."""
        values = {name: -self.values(name) for name in self.table}  # against() asks what the others gain
        return against(values, system, list(self.intents.values()))

    def against(self, new: str, old: str, other: Scores | None = None) -> Difference:
        """How ``new`` differs from ``old`` (of ``other``, an evaluation on the same set), on the queries of both.

        Raises:
            InputError: ``other`` is by another metric.
        """
        where = other or self
        if where.metric != self.metric:
            raise InputError(f"{self.ref} is read by {self.metric} and {where.ref} by {where.metric}: read both by one")
        shared = [query_id for query_id in self.intents if query_id in where.intents]
        kinds = [self.intents[query_id] for query_id in shared]
        return compare(self.values(new, shared), where.values(old, shared), kinds)

    def called(self, model: str) -> str:
        """What the evaluation calls a trained version; empty where it has none of that name."""
        return next((name for name, ref in self.models.items() if ref and ref == model), "")

    def resolve_system(self, system: str) -> str:
        """The system of that name, or that trained version.

        Raises:
            InputError: it was not evaluated.
        """
        found = system if system in self.by_system else self.called(system)
        if not found:
            raise InputError(f"{system!r} was not evaluated here; these were: {', '.join(self.by_system)}")
        return found

    def start_of(self, system: str) -> str:
        """The system that a trained one started from; empty where it was not evaluated."""
        began = self.starts.get(self.models.get(system, ""), "")
        another = began and self.untrained and began != self.untrained
        names = ("" if another else f"{system.partition('/')[0]}/untrained", began)
        return next((name for name in names if name in self.by_system and name != system), "")

    def best_other(self, system: str) -> str:
        """The best of those in which nothing is that was trained here, ``system``'s start left out, too."""
        refs, start = {name: ref for name, ref in self.models.items() if ref}, self.start_of(system)
        trained = {*refs, *(ref.partition("@")[0] for ref in refs.values())}
        return next((n for n in self.table if n != start and not any(one in n for one in trained)), "")


def scores_of(version: Version, metric: str = "") -> Scores:
    """What an evaluation found by a metric; see :func:`from_rows`."""
    return from_rows(str(version.manifest.ref), version.table(_COLUMNS).to_pylist(), metric)


def _farness(metric: str) -> tuple[bool, bool, int, str]:
    """How far a metric is from NDCG@10, or, where instructions are changed, from p-MRR, which is what they are for."""
    depth = re.search(r"\d+", metric.partition("@")[2])
    return metric != P_MRR, not metric.startswith("ndcg@"), abs(int(depth[0]) - 10) if depth else 0, metric


def from_rows(
    ref: str,
    rows: Iterable[Mapping[str, Any]],
    metric: str = "",
    starts: Mapping[str, str] | None = None,
    untrained: str = "",
) -> Scores:
    """What the rows of the evaluation ``ref`` say by a metric, or else by p-MRR or NDCG@10, or by what comes nearest.

    Raises:
        InputError: they have no such metric, or there are none.
    """
    rows = sorted(rows, key=itemgetter("query_id", "system"))
    known = [name for name, _ in rows[0]["scores"]] if rows else []
    if not known or metric not in ("", *known):
        has = f"it has {', '.join(known)}" if known else "it has no score of any query; run evaluate_retriever again"
        raise InputError(f"{ref} has no {metric or 'score'!r}; {has}")
    metric = metric or min(known, key=_farness)
    by_system: dict[str, dict[str, float]] = {}
    for row in rows:
        by_system.setdefault(row["system"], {})[row["query_id"]] = dict(row["scores"])[metric]
    intents = {row["query_id"]: row["intent"] for row in rows}
    models = {row["system"]: row["model_version"] or "" for row in rows}
    return Scores(ref, metric, by_system, intents, models, starts or {}, untrained)
