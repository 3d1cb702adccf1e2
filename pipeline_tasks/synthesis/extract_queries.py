"""Pairs without an LLM: queries in a passage's own words, with the passage as their positive."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known, first_intent
from pipeline_tasks.synthesis.extracted import SOURCES, QuerySource, extract

_SHOWN = 80


class ExtractQueriesParams(StepParams):
    """What of a passage becomes a query."""

    query_source: tuple[QuerySource, ...] = Field(
        SOURCES, min_length=1, description="what of a passage becomes queries: headings, titles and so on"
    )
    per_passage: int = Field(
        2, ge=1, description="queries per passage, at most; sampled by its id where there are more"
    )
    intent: str = Field(
        default_factory=lambda: first_intent(domain_folder()), description="search intent of the queries"
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse an intent that the domain has not."""
        check_known(domain_folder(), self.intent)


@step(reads={"passages": PASSAGES}, writes=PAIRS, kind="map", dataset="mtp/extracted")
def extract_queries(rows: pa.Table, params: ExtractQueriesParams, run: Run) -> pa.Table:
    """Take queries from each passage's own words; the passage is their positive, and of its split.

    A title is a query for the passage that its document begins with. A passage without any query is the reject
    ``no_query``.
    """
    pairs = []
    for row in rows.to_pylist():
        passage = row["passage_id"]
        found = extract(
            passage,
            row["title"] or "",
            row["text"],
            begins=not row["start_char"],
            sources=params.query_source,
            most=params.per_passage,
        )
        if not found:
            run.reject(passage, "no_query", row["text"][:_SHOWN])
        for source, query in found:
            run.count(f"queries/{source}")
            pairs.append(
                {
                    "query_id": short_id(passage, source, query),
                    "need_id": "",
                    "passage_id": passage,
                    "doc_id": row["doc_id"],
                    "intent": params.intent,
                    "query": query,
                    "positive_id": passage,
                    "positive": row["text"],
                    "passage": row["text"],
                    "split": row["split"],
                    "origin": f"extracted/{source}",
                    "need_response_id": "",
                    "response_id": "",
                }
            )
    return PAIRS.table(pairs)
