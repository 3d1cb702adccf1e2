"""What the demo came to: every system on the domain's judged questions, and what training gained there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.standings import Standings, standings
from pipeline_tasks.evaluation.statistics import Difference
from pipeline_tasks.models.use import REFERENCE_MODELS

SET = "eval/questions"


@dataclass(frozen=True)
class Shown:
    """A table for people.

    Attributes:
        spare: columns at its end that a narrow terminal does without.
    """

    title: str
    head: list[str]
    rows: list[list[str]]
    spare: int = 0

    def within(self, width: int) -> Shown:
        """The same for a terminal of so many characters."""
        widths = [max(map(len, column)) + 3 for column in zip(self.head, *self.rows, strict=True)]
        if not self.spare or sum(widths) < width:
            return self
        return Shown(self.title, self.head[: -self.spare], [row[: -self.spare] for row in self.rows])


@dataclass(frozen=True)
class Result:
    """What came out.

    Attributes:
        table: every system, best last.
        facts: what ``demo.json`` says of it.
        in_words: the gain, or that there is none.
    """

    table: Shown
    facts: dict[str, Any]
    in_words: str


def result_of(store: Store, size: str) -> Result:
    """What the latest evaluation says of the latest stage of the trained model and of what it started from."""
    found = standings(Version.open(store, Ref.parse(SET)))
    start = found.of(f"{size}/untrained")
    stages = [standing for standing in found.systems if standing.model_version]
    trained = found.of(str(Version.open(store, Ref.parse(f"model/{size}/finetune")).manifest.ref))
    gained = found.against(start.system, [stage.system for stage in stages])
    gain = gained[trained.system]
    facts = {
        "questions": len(found.intents),
        "start_ndcg": round(start.score, 4),
        "trained_ndcg": round(trained.score, 4),
        "p_value": gain.p,
        "bm25_ndcg": round(found.of("bm25").score, 4),
        "best_reference_ndcg": round(max(found.of(name).score for name in REFERENCE_MODELS), 4),
    }
    words = (
        f"{trained.system} scores {100 * trained.score:.1f} on {len(found.intents)} judged questions, "
        f"{100 * gain.gain:+.1f} points against {start.system}, which it started from "
        f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}): {gain.in_words()}"
    )
    return Result(_table(found, gained), facts, words)


def _table(found: Standings, gained: dict[str, Difference]) -> Shown:
    """Systems down, best last; what a stage of the trained model gained over its start beside its score."""
    counts = found.counts
    head = ["system", "NDCG@10", "95%", "gain", "p", *(f"{intent} ({n})" for intent, n in counts.items())]
    rows = []
    for standing in found.systems:
        gain = gained.get(standing.system)
        apart = [f"{gain.gain:+.3f}", f"{gain.p:.2g}"] if gain else ["", ""]
        means = [f"{standing.of_intent[intent]:.3f}" for intent in counts]
        between = f"{standing.low:.3f} … {standing.high:.3f}"
        rows.append([standing.system, f"{standing.score:.3f}", between, *apart, *means])
    return Shown(f"NDCG@10 on {len(found.intents)} judged questions, mean over intents", head, rows, len(counts))
