"""Every system by every measure."""

from __future__ import annotations

from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.report.content import Section, Table
from pipeline_tasks.report.evaluations import by_measure
from pipeline_tasks.report.subject import Ask


def system_section(ask: Ask, scores: Scores) -> Section | None:
    """A row for each system, the best by the report's measure above; None where one measure is all there is."""
    measured = by_measure(ask, scores.ref)
    if len(measured) < 2:
        return None
    words = ["Means over intents, as of the scores above."]
    head = ("system", *measured)
    rows = [(system, *(f"{found.mean(system):.3f}" for found in measured.values())) for system in scores.table]
    return Section(f"Systems on {scores.set_name}, by every measure", words, table=Table(head, rows), in_short=False)
