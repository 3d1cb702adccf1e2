"""Models that were trained with several seeds: their spread, and what is more than that."""

from __future__ import annotations

from pipeline_tasks.core.store import Store
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.evaluation.seeds import noise_in_words
from pipeline_tasks.report.content import Section


def seed_section(store: Store, scores: Scores, system: str) -> Section | None:
    """Every model of several seeds against ``system``'s start, or the system itself; None where each has one."""
    said = noise_in_words(store, scores, scores.start_of(system) or system)
    return Section(f"Seeds on {scores.set_name}", said) if said else None
