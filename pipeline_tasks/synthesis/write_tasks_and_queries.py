"""FRet, first half: for a passage, what somebody may search for, and with which query."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.synthesis.checking.checks import TABLE, bounds_of, check_names
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, write_all
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting import task_prompts
from pipeline_tasks.synthesis.prompting.instructing import repair
from pipeline_tasks.synthesis.prompting.prompts import Prompt

ORIGIN = "fret"
_LEAST_WORDS = {"words": 2.0}
"""Keywords and titles are queries, too."""


class WriteTasksAndQueriesParams(LlmParams):
    """How many passages, and which model."""

    sample_rate: float = Field(
        1.0, gt=0, le=1, description="fraction of passages that the LLM writes for, sampled by their id"
    )
    splits: tuple[Literal["train", "dev", "test"], ...] = Field(
        ("train", "dev"), min_length=1, description="splits of passages to use; test is for evaluation"
    )

    def identity(self) -> dict[str, Any]:
        """Model and sampling, and what its own prompt says; those of the domain have no part in it."""
        return self.sampling() | {"prompt_sha256": task_prompts.sha256()}


@step(
    reads={"passages": PASSAGES},
    writes=INSTRUCTED_PAIRS,
    kind="map",
    dataset="mtp/fret",
    version="8",
    pool="llm",
    secrets=("llm",),
)
def write_tasks_and_queries(rows: pa.Table, params: WriteTasksAndQueriesParams, run: Run) -> pa.Table:
    """Ask the LLM for a task and a query for each sampled passage, by one prompt; the passage is the positive for now.

    The task is the query's instruction. Rejects have the passage's id and the reason of the first of the
    :mod:`~pipeline_tasks.synthesis.checking.checks` that refuses the query, or of the task with ``task_`` before it:
    ``checks`` widen the bounds of a task, and narrow none. Passages outside the sample or the splits are counted as
    ``not_sampled``.

    Source: Gecko 3.2, "LLM-based Diverse Query Generation". Departures: the prompt, which is not published, is ours,
    and answers are checked.
    """
    check_names(params.checks)
    bounds = bounds_of(params.kind, ANY, _LEAST_WORDS | dict(params.checks))
    task_bounds = {
        check.name: (min if check.side == "least" else max)(bound, params.checks.get(check.name, bound))
        for check in TABLE
        if (bound := task_prompts.TASK_BOUNDS.get(check.name)) is not None
    }
    asked_of = [p for p in rows.to_pylist() if p["split"] in params.splits]
    asked_of = [p for p in asked_of if unit_hash("sample", p["passage_id"]) < params.sample_rate]
    run.count("not_sampled", rows.num_rows - len(asked_of))
    asked_of.sort(key=lambda passage: passage["passage_id"])
    read, again = (
        partial(task_prompts.read, bounds=bounds, task_bounds=task_bounds),
        repair if params.api == "chat" else _no_repair,
    )
    ask = partial(task_prompts.ask, chat=params.api == "chat", **params.chat_terms)
    asked = [PromptTask(ask(p["text"], key=p["passage_id"]), read, again) for p in asked_of]
    pairs = []
    for passage, one, found in zip(asked_of, asked, write_all(asked, "query", params, run), strict=True):
        if isinstance(found, Refusal):
            run.reject(passage["passage_id"], found.reason, found.detail)
            continue
        pairs.append(
            {name: passage[name] for name in ("passage_id", "doc_id", "split")}
            | {"query_id": short_id(ORIGIN, passage["passage_id"], one.prompt.sha256), "need_id": ""}
            | {"intent": ANY, "instruction": found.value.task, "query": found.value.query}
            | {"positive_id": passage["passage_id"], "positive": passage["text"], "passage": passage["text"]}
            | {"origin": ORIGIN, "need_response_id": "", "response_id": found.response_id}
        )
    return INSTRUCTED_PAIRS.table(pairs)


def _no_repair(answer: Response, prompt: Prompt) -> None:
    """A model that continues texts cannot be corrected."""
