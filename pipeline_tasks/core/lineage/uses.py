"""What was made of passages: queries written from them, votes for them, training rows that they are in."""

# ruff: noqa: S608 (constants only)

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.manifest import Ref

MOST = 20
_OURS = "IN (SELECT unnest(?))"
_PAGES = f"""
    SELECT DISTINCT ON (doc_id) doc_id, page_starts FROM all_documents
    WHERE doc_id {_OURS} AND page_starts IS NOT NULL ORDER BY dataset"""
_WRITTEN = f"""
    SELECT DISTINCT ON (query_id) passage_id, query_id, intent, query, split FROM all_pairs
    WHERE passage_id {_OURS} ORDER BY query_id"""
_AGREED = f"""
    SELECT DISTINCT ON (query_id) positive_id AS passage_id, query_id, intent, query, split,
        list_transform(votes, lambda v: {{'model': v.model, 'rank': v.positive_rank, 'score': v.positive_score}})
            AS votes
    FROM all_labelled WHERE positive_id {_OURS} ORDER BY query_id"""
_POSITIVE = f"""
    SELECT DISTINCT positive_id AS passage_id, dataset, query_id, query FROM all_triplets
    WHERE positive_id {_OURS} ORDER BY dataset, query_id"""
_NEGATIVE = f"""
    SELECT DISTINCT * FROM (
        SELECT unnest(negative_ids) AS passage_id, dataset, query_id, query, unnest(negative_scores) AS score
        FROM all_triplets WHERE list_has_any(negative_ids, ?))
    WHERE passage_id {_OURS} ORDER BY dataset, query_id"""
_TRAINED_ON = """
    SELECT dataset, version, is_latest, rows_schema FROM ancestors_of(?) JOIN versions USING (dataset, version)
    WHERE rows_schema IN ('pairs', 'triplets', 'scored_triplets') ORDER BY depth, dataset"""


def uses(reader: Reader, passage_ids: Collection[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Passage id -> what it was used for -> ``{"n": how many, "of": datasets or splits, "rows": the first of them}``.

    ``written``: queries of which it is the source. ``agreed``: queries whose positive it is, as the reference models
    agree, with their votes. ``positive`` and ``negative``: training rows of the latest builds that have it so.
    """
    ids = sorted(passage_ids)
    with reader.asking() as ask:
        found = {
            "written": ask(_first(_WRITTEN, "split"), ids),
            "agreed": ask(_first(_AGREED, "split"), ids),
            "positive": ask(_first(_POSITIVE, "dataset"), ids),
            "negative": ask(_first(_NEGATIVE, "dataset"), ids, ids),
        }
    made = {i: no_uses() for i in ids}
    for name, rows in found.items():
        for row in rows:
            use = made[row.pop("passage_id")][name]
            use |= {"n": row.pop("n"), "of": row.pop("of"), "rows": [*use["rows"], row]}
    return made


def no_uses() -> dict[str, dict[str, Any]]:
    """What :func:`uses` tells of a passage of which nothing was made."""
    return {name: {"n": 0, "of": [], "rows": []} for name in ("written", "agreed", "positive", "negative")}


def _first(found: str, of: str) -> str:
    """The first rows of each passage, and with each how many there are and of what, which no limit cuts."""
    return f"""
        WITH found AS ({found}),
        whole AS (SELECT passage_id, count(*) AS n, list_sort(list(DISTINCT {of})) AS of FROM found GROUP BY passage_id)
        SELECT * FROM found JOIN whole USING (passage_id)
        QUALIFY row_number() OVER (PARTITION BY passage_id ORDER BY {of}, query_id) <= {MOST}
        ORDER BY passage_id, {of}, query_id"""


def page_starts(reader: Reader, doc_ids: Collection[str]) -> dict[str, list[int]]:
    """Document -> offset of each page's first character in its text, as far as it is known."""
    return {row["doc_id"]: row["page_starts"] for row in reader.ask(_PAGES, sorted(doc_ids))}


def trained_on(reader: Reader, model: Ref) -> list[dict[str, Any]]:
    """Pairs and triplets among what a model was made from, directly or not: dataset, version, whether it is latest."""
    return reader.ask(_TRAINED_ON, str(model))
