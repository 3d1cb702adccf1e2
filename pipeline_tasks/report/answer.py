"""The question that a user asks first: is my model better than what was there before, on what, and is it luck?"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.evaluation.statistics import Difference
from pipeline_tasks.report.evaluations import before, ground, read
from pipeline_tasks.report.luck import ELSEWHERE, in_words
from pipeline_tasks.report.subject import Ask, lineage, subject


@dataclass(frozen=True)
class Rival:
    """What a model is measured against.

    Attributes:
        name: in a few words.
        words: how much better or worse the model is, and whether that may be luck.
        difference: the same in numbers.
    """

    name: str
    words: str
    difference: Difference


def rivals(ask: Ask, scores: Scores, system: str) -> list[Rival]:
    """Its start, its version before and the best of the others, as far as they were evaluated on this set."""
    where, older = before(ask, scores, system) or (scores, "")
    best = scores.best_other(system)
    elsewhere = ground(ask, where.ref) != ground(ask, scores.ref)
    named = [
        ("its start", "its start", scores.start_of(system), scores),
        ("its version before", f"its version before{ELSEWHERE * elsewhere}", older, where),
        (best, f"{best}, the best of the others,", best, scores),
    ]
    found = [(name, said, scores.against(system, other, of)) for name, said, other, of in named if other]
    return [Rival(name, in_words(system, said, difference), difference) for name, said, difference in found]


def comparisons(store: Store, ref: Ref) -> dict[str, str]:
    """For a model's card: each evaluation of the version ``ref``, and what it says of its rivals."""
    with lineage(store) as ask:
        evaluations = [read(ask, name) for name in subject(store, ask, str(ref)).evaluations]
        found = {s.ref: rivals(ask, s, s.called(str(ref))) for s in evaluations}
    return {name: " ".join(rival.words for rival in those) for name, those in found.items() if those}
