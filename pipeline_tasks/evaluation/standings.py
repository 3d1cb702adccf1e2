"""Who scores what on a judged set, how sure that is, and what of it is luck: read from the rows of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.statistics import Difference, against, interval, weights

_COLUMNS = ["system", "model_version", "query_id", "intent", "scores"]


@dataclass(frozen=True)
class Standing:
    """One system on one judged set.

    Attributes:
        system: its name.
        model_version: ``dataset@version`` of a trained model, else empty.
        score: mean over intents of the mean over their queries.
        low: end of its 95% interval.
        high: other end.
        of_intent: intent -> mean over its queries.
        values: [q] one per query, in the order of the set's query ids.
    """

    system: str
    model_version: str
    score: float
    low: float
    high: float
    of_intent: dict[str, float]
    values: np.ndarray


@dataclass(frozen=True)
class Standings:
    """All systems on one judged set by one measure, worst first.

    Attributes:
        measure: what is scored.
        intents: [q].
        systems: all of them.
    """

    measure: str
    intents: list[str]
    systems: list[Standing]

    @property
    def counts(self) -> dict[str, int]:
        """Intent -> queries."""
        return {intent: self.intents.count(intent) for intent in sorted(set(self.intents))}

    def of(self, system: str) -> Standing:
        """The system of that name.

        Raises:
            InputError: it was not evaluated.
        """
        for standing in self.systems:
            if system in (standing.system, standing.model_version):
                return standing
        known = ", ".join(standing.system for standing in self.systems)
        raise InputError(f"{system!r} was not evaluated here; these were: {known}")

    def against(self, baseline: str, names: Sequence[str] = ()) -> dict[str, Difference]:
        """What sets ``names``, or all others, apart from ``baseline``, their p-values raised for their number."""
        chosen = [self.of(name) for name in (*names, baseline)] if names else self.systems
        return against({s.system: s.values for s in chosen}, self.of(baseline).system, self.intents)


def standings(version: Version, measure: str = "ndcg@10") -> Standings:
    """What an evaluation found.

    Raises:
        InputError: it has no such measure.
    """
    rows = version.table(_COLUMNS).sort_by("query_id").to_pylist()
    names = list(dict.fromkeys(row["system"] for row in rows))
    known = [name for name, _ in rows[0]["scores"]] if rows else []
    if measure not in known:
        raise InputError(f"{version.manifest.ref} has no {measure!r}; it has {', '.join(known) or 'nothing'}")
    of_system = {name: [row for row in rows if row["system"] == name] for name in names}
    intents = [row["intent"] for row in of_system[names[0]]]
    found = []
    for name, own in of_system.items():
        values = np.array([dict(row["scores"])[measure] for row in own])
        low, high = interval(values, intents)
        of_query = np.asarray(intents)
        means = {intent: float(values[of_query == intent].mean()) for intent in sorted(set(intents))}
        found.append(
            Standing(name, own[0]["model_version"], float(weights(intents) @ values), low, high, means, values)
        )
    return Standings(measure, intents, sorted(found, key=lambda standing: standing.score))
