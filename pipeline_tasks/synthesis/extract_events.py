"""Events: what happened according to a passage, with the words that say so."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import EVENTS, PASSAGES
from pipeline_tasks.synthesis.llm.asking import Refusal, write_all
from pipeline_tasks.synthesis.prompting.events import ask_event
from pipeline_tasks.synthesis.prompting.instructing import InstructingParams


class ExtractEventsParams(InstructingParams):
    """Which passages."""

    sample_rate: float = Field(
        1.0, gt=0, le=1, description="fraction of passages that the LLM writes for, sampled by their id"
    )
    splits: tuple[Literal["train", "dev", "test"], ...] = Field(
        ("train", "dev", "test"),
        min_length=1,
        description="splits of passages to use; leave out test where another set is for testing",
    )


@step(reads={"passages": PASSAGES}, writes=EVENTS, kind="map", version="6", pool="llm", secrets=("llm",))
def extract_events(rows: pa.Table, params: ExtractEventsParams, run: Run) -> pa.Table:
    """Ask the LLM for the main event of each sampled passage; its evidence stands in the passage word for word.

    Rejects have the passage's id: ``event_not_quoted`` where it does not, ``event_none`` where the passage tells of
    nothing, else the reason of the check that refuses. Passages outside the sample or the splits are counted as
    ``not_sampled``.

    Source: BMEmbed 3.1. Departures: those of :mod:`~pipeline_tasks.synthesis.prompting.events`.
    """
    asked_of = [p for p in rows.to_pylist() if p["split"] in params.splits]
    asked_of = [p for p in asked_of if unit_hash("sample", p["passage_id"]) < params.sample_rate]
    asked_of.sort(key=lambda passage: passage["passage_id"])
    run.count("not_sampled", rows.num_rows - len(asked_of))
    asked = [ask_event(p["passage_id"], params, p["text"]) for p in asked_of]
    events = []
    for passage, found in zip(asked_of, write_all(asked, "event", params, run), strict=True):
        if isinstance(found, Refusal):
            run.reject(passage["passage_id"], found.reason, found.detail)
            continue
        events.append(
            {"event_id": short_id(passage["passage_id"], found.prompt.sha256), "passage": passage["text"]}
            | {name: passage[name] for name in ("passage_id", "doc_id", "split")}
            | found.value._asdict()
            | {"response_id": found.response_id}
        )
    return EVENTS.table(events)
