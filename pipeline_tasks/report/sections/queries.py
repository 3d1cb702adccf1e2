"""The best and the worst queries, and what was retrieved for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, whole
from pipeline_tasks.evaluation.scores import Scores
from pipeline_tasks.report.content import Passage, Query, Section
from pipeline_tasks.report.subject import Ask

_MOST, _DEPTH, _LETTERS = 10, 5, 240
_BLOCK = 16_384
_RETRIEVED = """
WITH asked AS (
    SELECT query_id, any_value(query) AS query, any_value(passage_ids) AS passage_ids, any_value(grades) AS grades
    FROM evaluated_queries WHERE dataset = ? AND version = ? AND system = ? AND query_id IN (SELECT unnest(?))
    GROUP BY query_id
),
placed AS (
    SELECT query_id, unnest(passage_ids) AS passage_id, unnest(grades) AS grade,
        generate_subscripts(passage_ids, 1) AS place
    FROM asked
)
SELECT query_id, query, passage_id, grade FROM asked LEFT JOIN placed USING (query_id)
WHERE coalesce(place, 1) <= ? ORDER BY query_id, place
"""
_RANKED = """
SELECT DISTINCT input_dataset || '@' || input_version AS ref FROM version_inputs
WHERE dataset = ? AND version = ? AND input_name = 'passages' ORDER BY ref
"""


def query_section(store: Store, ask: Ask, scores: Scores, system: str) -> Section:
    """Ten of either end by ``system``'s score; among equals, what changed most since the start comes first.

    Texts are those of the version that was ranked; there are none where the store does not have it any more.
    """
    values = scores.by_system[system]
    start = scores.by_system.get(scores.start_of(system), {})
    half = max(1, min(_MOST, len(values) // 2))

    def gain(query_id: str) -> float:
        return values[query_id] - start.get(query_id, values[query_id])

    best = sorted(values, key=lambda q: (-values[q], -gain(q), q))[:half]
    worst = sorted(values.keys() - best, key=lambda q: (values[q], gain(q), q))[:half]
    shown = _read(store, ask, scores, system, best + worst, start)
    title = f"Best and worst queries on {scores.set_name}"
    about = (
        f"By {scores.metric.upper()} of {system}; among equals, those that changed most since the start come first. "
        f"Each opens to the first {_DEPTH} passages that were retrieved."
    )
    groups = tuple((f"{end} {half}", [shown[q] for q in ids]) for end, ids in (("Worst", worst), ("Best", best)) if ids)
    return Section(title, (about,), queries=groups, in_short=False)


def _read(
    store: Store, ask: Ask, scores: Scores, system: str, wanted: list[str], start: Mapping[str, float]
) -> dict[str, Query]:
    at = Ref.parse(scores.ref)
    rows = ask(_RETRIEVED, at.dataset, at.version, system, wanted, _DEPTH)
    ranked = [Ref.parse(row["ref"]) for row in ask(_RANKED, at.dataset, at.version)]
    texts = _texts(store, ranked, {row["passage_id"] for row in rows if row["passage_id"]})
    asked: dict[str, str] = {}
    passages: dict[str, list[Passage]] = {}
    for row in rows:
        asked[row["query_id"]] = row["query"]
        if row["passage_id"]:
            found = Passage(row["passage_id"], texts.get(row["passage_id"], ""), row["grade"])
            passages.setdefault(row["query_id"], []).append(found)
    return {
        q: Query(q, asked.get(q, ""), scores.intents[q], scores.by_system[system][q], start.get(q), passages.get(q, []))
        for q in wanted
    }


def _texts(store: Store, ranked: Sequence[Ref], wanted: set[str]) -> dict[str, str]:
    """How the passages ``wanted`` begin in these versions, by id."""
    ids, found = pa.array(sorted(wanted), pa.string()), dict[str, str]()
    for manifest in filter(None, (whole(store, ref) for ref in ranked)):
        for rows in Version(store, manifest).batches(["passage_id", "text"], _BLOCK):
            here = rows.filter(pc.is_in(rows["passage_id"], value_set=ids))
            found |= {row["passage_id"]: _beginning(row["text"]) for row in here.to_pylist()}
    return found


def _beginning(text: str) -> str:
    """A text's first words, and an ellipsis where there are more."""
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS].rpartition(' ')[0] or text[:_LETTERS]}…"
