"""Evaluations as the lineage has them: what their models began as, and what was evaluated before."""

from __future__ import annotations

import json

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.evaluation.geometry import Geometry
from pipeline_tasks.evaluation.scores import Scores, from_rows
from pipeline_tasks.report.subject import Ask

_ROWS = """
SELECT system, model_version, query_id, intent, scores FROM evaluated_queries WHERE dataset = ? AND version = ?
"""
_STARTS = """
WITH RECURSIVE chain AS (
    SELECT DISTINCT model_version AS model, model_version AS ref, 0 AS depth FROM evaluated_queries
    WHERE dataset = ? AND version = ? AND model_version <> ''
    UNION
    SELECT model, i.input_dataset || '@' || i.input_version, depth + 1
    FROM chain JOIN version_inputs i ON i.dataset || '@' || i.version = ref AND i.input_name IN ('init', 'models')
)
SELECT model, value AS backbone FROM chain JOIN params p ON p.dataset || '@' || p.version = ref
WHERE p.name = 'backbone' AND p.value LIKE '{%'
ORDER BY depth, backbone
"""
"""Of each model and of those that it began as, or is the mean of; what the first of them began as comes last."""
_UNTRAINED = """
SELECT value AS backbone FROM params WHERE dataset = ? AND version = ? AND name = 'backbone' AND value LIKE '{%'
"""
_BEFORE = """
SELECT e.dataset || '@' || e.version AS ref, e.system
FROM evaluated_queries e
JOIN versions v USING (dataset, version)
JOIN versions m ON m.dataset || '@' || m.version = e.model_version
JOIN versions mine ON mine.dataset || '@' || mine.version = ?
WHERE e.dataset = ? AND split_part(e.system, '@', 1) = ? AND m.created_at < mine.created_at
GROUP BY e.dataset, e.version, e.system
QUALIFY dense_rank() OVER (ORDER BY max(m.created_at) DESC) = 1
ORDER BY ref = ? DESC, max(v.created_at) DESC
"""
_GROUND = """
SELECT DISTINCT input_name, input_dataset || '@' || input_version AS ref FROM version_inputs
WHERE dataset = ? AND version = ? AND input_name IN ('queries', 'passages')
"""
_GEOMETRY = """
SELECT name, value FROM counters JOIN last_builds USING (run_id, dataset, version)
WHERE dataset = ? AND version = ? AND name LIKE '%/%'
"""


def read(ask: Ask, ref: str, metric: str = "") -> Scores:
    """The evaluation ``ref`` by a metric, or else by its p-MRR, its NDCG@10 or what comes nearest.

    Raises:
        InputError: it has no scores, or none of that metric.
    """
    at = Ref.parse(ref)
    starts = {row["model"]: json.loads(row["backbone"]).get("name", "") for row in ask(_STARTS, at.dataset, at.version)}
    own = ask(_UNTRAINED, at.dataset, at.version)
    untrained = json.loads(own[0]["backbone"]).get("name", "") if own else ""
    return from_rows(ref, ask(_ROWS, at.dataset, at.version), metric, starts, untrained)


def by_measure(ask: Ask, ref: str) -> dict[str, Scores]:
    """The evaluation ``ref`` by each of its measures, in their order."""
    at = Ref.parse(ref)
    rows = ask(_ROWS, at.dataset, at.version)
    return {name: from_rows(ref, rows, name) for name, _ in (rows[0]["scores"] if rows else ())}


def geometries(ask: Ask, ref: str) -> dict[str, Geometry]:
    """How the embedders of the evaluation ``ref`` lay out queries and passages, by system."""
    at = Ref.parse(ref)
    found: dict[str, dict[str, float]] = {}
    for row in ask(_GEOMETRY, at.dataset, at.version):
        measure, _, system = row["name"].partition("/")
        if measure in Geometry._fields:
            found.setdefault(system, {})[measure] = row["value"]
    return {system: Geometry(**values) for system, values in found.items() if len(values) == len(Geometry._fields)}


def ground(ask: Ask, ref: str) -> frozenset[tuple[str, str]]:
    """What an evaluation asked, and what it searched: versions of judged queries and of passages, by input."""
    at = Ref.parse(ref)
    return frozenset((row["input_name"], row["ref"]) for row in ask(_GROUND, at.dataset, at.version))


def _has(ask: Ask, ref: str, metric: str) -> bool:
    at = Ref.parse(ref)
    rows = ask(f"{_ROWS} LIMIT 1", at.dataset, at.version)
    return bool(rows) and metric in dict(rows[0]["scores"])


def before(ask: Ask, scores: Scores, system: str) -> tuple[Scores, str] | None:
    """The version before, as its last evaluation on the same set by the same measure, and what that calls it.

    None where none shares a query, or all are by other measures.
    """
    set_of_both = Ref.parse(scores.ref).dataset
    found = ask(_BEFORE, scores.models[system], set_of_both, system.partition("@")[0], scores.ref)
    older = [
        (read(ask, row["ref"], scores.metric), row["system"]) for row in found if _has(ask, row["ref"], scores.metric)
    ]
    return next((pair for pair in older if scores.intents.keys() & pair[0].intents.keys()), None)
