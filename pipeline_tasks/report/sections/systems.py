"""Every system by every measure, and how embedders lay out queries and passages."""

from __future__ import annotations

from pipeline_tasks.evaluation.geometry import Geometry
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.evaluation.statistics import weights
from pipeline_tasks.report.content import Section, Table
from pipeline_tasks.report.evaluations import by_measure, geometries
from pipeline_tasks.report.subject import Ask


def system_section(ask: Ask, scores: Scores) -> Section | None:
    """A row for each system, the best by the report's measure above; None where one measure is all there is."""
    measured, laid_out = by_measure(ask, scores.ref), geometries(ask, scores.ref)
    if len(measured) < 2 and not laid_out:
        return None
    words = ["Means over intents, as of the scores above."]
    if laid_out:
        words.append(
            "Alignment is the mean squared distance of a query and a passage that answers it; as a share of the "
            "distance to the nearest passage, 1 is the best, and models can be compared. Uniformity says how evenly "
            "passages fill the space: the more, the better. A training that moves one at the expense of the other "
            "shows here."
        )
    head = ("system", *measured, *(("alignment", "over nearest", "uniformity") if laid_out else ()))
    rows = [
        (system, *(f"{_mean(found, system):.3f}" for found in measured.values()), *_told(laid_out, system))
        for system in scores.table
    ]
    return Section(f"Systems on {scores.set_name}, by every measure", words, table=Table(head, rows), in_short=False)


def _mean(scores: Scores, system: str) -> float:
    return float(weights(list(scores.intents.values())) @ scores.values(system))


def _told(laid_out: dict[str, Geometry], system: str) -> list[str]:
    """Three cells, empty for what has no vectors; none where nothing has."""
    found = laid_out.get(system)
    return [f"{value:.3f}" for value in found] if found else [""] * 3 * bool(laid_out)
