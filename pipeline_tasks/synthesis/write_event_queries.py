"""Pairs from events: a query that somebody who wants to learn of an event may type, and its passage."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import EVENTS, PAIRS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known, first_intent
from pipeline_tasks.synthesis.llm.asking import Refusal, write_all
from pipeline_tasks.synthesis.prompting.events import QUERY, Event
from pipeline_tasks.synthesis.prompting.instructing import InstructingParams, ask

ORIGIN = "event"


class WriteEventQueriesParams(InstructingParams):
    """Which model writes."""

    intent: str = Field(
        default_factory=lambda: first_intent(domain_folder()), description="search intent of the queries"
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse an intent that the domain has not."""
        super().model_post_init(context)
        check_known(domain_folder(), self.intent)


@step(
    reads={"events": EVENTS}, writes=PAIRS, kind="map", dataset="mtp/events", version="6", pool="llm", secrets=("llm",)
)
def write_event_queries(rows: pa.Table, params: WriteEventQueriesParams, run: Run) -> pa.Table:
    """Ask the LLM for a query about each event; the passage that tells of it is the positive.

    Rejects have the event's id and the reason of the check that refuses the query.

    Source: BMEmbed 3.1, "query generation".
    """
    events = sorted(rows.to_pylist(), key=lambda event: event["event_id"])
    fields = [{name: event[name] for name in Event._fields} for event in events]
    asked = [ask(QUERY, e["event_id"], params, e["passage"], **of) for e, of in zip(events, fields, strict=True)]
    pairs = []
    for event, found in zip(events, write_all(asked, "query", params, run), strict=True):
        if isinstance(found, Refusal):
            run.reject(event["event_id"], found.reason, found.detail)
            continue
        pairs.append(
            {name: event[name] for name in ("passage_id", "doc_id", "passage", "split")}
            | {"query_id": short_id(event["event_id"], found.prompt.sha256), "need_id": event["event_id"]}
            | {"intent": params.intent, "query": found.value, "origin": ORIGIN}
            | {"positive_id": event["passage_id"], "positive": event["passage"]}
            | {"need_response_id": event["response_id"], "response_id": found.response_id}
        )
    return PAIRS.table(pairs)
