"""A query or a passage by its id: everything that the lineage tells of it, with the paid answers in full."""

from __future__ import annotations

import re
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.older import query_story
from pipeline_tasks.core.lineage.reader import Ask, Reader
from pipeline_tasks.core.paid.response_store import ResponseStore

_OLDER_S = 5.0
"""Of a question that others wait for."""
_RESPONSE_ID = re.compile(r"[0-9a-f]{64}")
_MOST_ALIKE = "SELECT count(DISTINCT dataset) AS n FROM all_pairs"
"""In how many rows a query may be: a dataset has it once."""
_FIND = """
    SELECT DISTINCT ON (query_id) query_id, intent, query FROM (
        SELECT query_id, intent, query FROM all_pairs
        WHERE contains(lower(query), lower($1)) OR query_id = $1 ORDER BY query_id LIMIT $2
    ) ORDER BY query_id LIMIT $3"""

_TEXTS = """
    SELECT passage_id, any_value(t) AS t FROM (
        SELECT passage_id, "text" AS t FROM all_passages UNION ALL SELECT positive_id, positive FROM all_pairs
    ) WHERE passage_id IN (SELECT unnest(?)) GROUP BY passage_id"""


def find_queries(reader: Reader, text: str, most: int = 20) -> list[dict[str, Any]]:
    """Queries that contain ``text``, whatever their case, by id; an empty text gives some."""
    with reader.asking() as ask:
        return ask(_FIND, text, most * ask(_MOST_ALIKE)[0]["n"], most)


def story(reader: Reader, name: str) -> dict[str, Any]:
    """``{"kind": "query" or "passage", "id": …, "story": the row of query_story or trace_passage, …}``.

    Of a query also ``texts``, what the passages say that got votes, and ``calls``, prompt and answer of each paid call.
    Of a passage also ``others``, the rows of others with its id, which other corpora may have.

    Raises:
        InputError: no query and no passage has that id.
    """
    with reader.asking() as ask:
        if found := ask("FROM trace_passage(?)", name):
            return {"kind": "passage", "id": name, "story": found[0], "others": found[1:]}
        if row := query_story(reader, ask, name, _OLDER_S):
            return {"kind": "query", "id": name, "story": row, "texts": _texts(ask, row), "calls": _calls(reader, row)}
    raise InputError(
        f"no query and no passage has the id {name!r}: search for a word of it, or take one from the list; "
        "`foundry trace` looks through older versions, too"
    )


def _texts(ask: Ask, row: dict[str, Any]) -> dict[str, str]:
    """Passage id -> text of all that a model voted for."""
    ids = {i for vote in row["votes"] or [] for i in vote["passage_ids"] or []}
    ids |= {i for ranking in row["rankings"] or [] for i in ranking["top_ids"] or []}
    return {found["passage_id"]: found["t"] for found in ask(_TEXTS, sorted(ids))} if ids else {}


def _calls(reader: Reader, row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Response id -> prompt and answer, where the store has them."""
    found: dict[str, dict[str, Any]] = {}
    for name in filter(None, (row["need_response_id"], row["response_id"])):
        record = ResponseStore(reader.store).lying(name) if _RESPONSE_ID.fullmatch(name) else None
        if record:
            request, response = record.get("request", {}), record.get("response", {})
            asked = request.get("prompt") or request.get("messages") or ""
            found[name] = {"prompt": asked, "answer": response.get("text", "")}
    return found
