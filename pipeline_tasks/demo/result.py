"""What the demo came to: every system on the domain's judged questions, and what training gained there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, resolve
from pipeline_tasks.evaluation.scores import AVERAGE, Scores, scores_of
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
    found = scores_of(Version.open(store, Ref.parse(SET)))
    mean = {system: row[AVERAGE].mean for system, row in found.table.items()}
    start = found.resolve_system(f"{size}/untrained")
    trained = found.resolve_system(str(resolve(store, Ref.parse(f"model/{size}/finetune"))))
    gained = found.gains(start, [name for name, version in found.models.items() if version])
    gain = gained[trained]
    facts = {
        "questions": len(found.intents),
        "start_ndcg": round(mean[start], 4),
        "trained_ndcg": round(mean[trained], 4),
        "p_value": gain.p,
        "bm25_ndcg": round(mean[found.resolve_system("bm25")], 4),
        "best_reference_ndcg": round(max(mean[found.resolve_system(name)] for name in REFERENCE_MODELS), 4),
    }
    words = (
        f"{trained} scores {100 * mean[trained]:.1f} on {len(found.intents)} judged questions, "
        f"{100 * gain.gain:+.1f} points against {start}, which it started from "
        f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}): {gain.in_words()}"
    )
    return Result(_table(found, gained), facts, words)


def _table(found: Scores, gained: dict[str, Difference]) -> Shown:
    """Systems down, best last; what a stage of the trained model gained over its start beside its score."""
    head = ["system", "NDCG@10", "95%", "gain", "p", *(f"{intent} ({found.counts[intent]})" for intent in found.kinds)]
    rows = []
    for system, row in reversed(found.table.items()):
        gain, score = gained.get(system), row[AVERAGE]
        apart = [f"{gain.gain:+.3f}", f"{gain.p:.2g}"] if gain else ["", ""]
        means = [f"{row[intent].mean:.3f}" for intent in found.kinds]
        rows.append([system, f"{score.mean:.3f}", f"{score.low:.3f} … {score.high:.3f}", *apart, *means])
    return Shown(f"NDCG@10 on {len(found.intents)} judged questions, mean over intents", head, rows, len(found.kinds))
