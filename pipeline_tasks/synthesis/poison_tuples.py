"""Poison: for an instruction, a query and their passage, near ones that do not belong together with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TOLD_PAIRS, TUPLES
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, Written, write_all
from pipeline_tasks.synthesis.llm.wanted import STAND_IN, QuoteRun
from pipeline_tasks.synthesis.prompting.instructing import (
    PASSAGE,
    POISONED_INSTRUCTION,
    POISONED_QUERY,
    InstructingParams,
    ask,
)


class PoisonTuplesParams(InstructingParams):
    """Which model poisons."""


@step(
    reads={"pairs": From(TOLD_PAIRS, "mtp/instructed")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/poisoned",
    version="6",
    pool="llm",
    secrets=("llm",),
)
def poison_tuples(rows: pa.Table, params: PoisonTuplesParams, run: Run) -> pa.Table:
    """Ask the LLM for another instruction and another query, each near the original, and for passages that fit these.

    ``instruction_passage`` fits the poisoned instruction with the query, ``query_passage`` the instruction with the
    poisoned query; what the positive fits, neither of these is to fit, and the other way round. No passage here answers
    the poisoned query under the poisoned instruction. A row of which one part is refused is a reject, its reason
    beginning with the part; one without an instruction is the reject ``no_instruction``.

    Source: InF-IR 4.1, "Contrastive negatives".
    """
    pairs = []
    for pair in sorted(rows.to_pylist(), key=lambda pair: pair["query_id"]):
        if pair["instruction"]:
            pairs.append(pair)
        else:
            run.reject(pair["query_id"], "no_instruction", pair["query"])
    poison = {
        f"poisoned_{task.field}": [
            ask(task, p["query_id"], params, p["positive"], query=p["query"], instruction=p["instruction"])
            for p in pairs
        ]
        for task in (POISONED_INSTRUCTION, POISONED_QUERY)
    }
    pairs = _with(pairs, poison, params, run)
    passages = {
        part: [
            ask(PASSAGE, f"{part}/{p['query_id']}", params, p["positive"], query=p[query], instruction=p[wish])
            for p in pairs
        ]
        for part, wish, query in (
            ("instruction_passage", "poisoned_instruction", "query"),
            ("query_passage", "instruction", "poisoned_query"),
        )
    }
    pairs = _with(pairs, passages, params, run)
    return TUPLES.table([{name: pair[name] for name in TUPLES.arrow.names} for pair in pairs])


def _with(
    pairs: list[dict[str, Any]], asked: dict[str, list[PromptTask[str] | Refusal]], params: PoisonTuplesParams, run: Run
) -> list[dict[str, Any]]:
    """The pairs for which these parts were written, with them; the others are rejects for the first that was not."""
    each = [
        replace(one, what=part) if isinstance(one, PromptTask) else one for part, ones in asked.items() for one in ones
    ]
    written, kept = write_all(each, "", params, run), []
    for place, pair in enumerate(pairs):
        row = dict(pair)
        for part, one in zip(asked, written[place :: len(pairs)], strict=True):
            columns = _columns(part, one, run)
            if isinstance(columns, Refusal):
                run.reject(pair["query_id"], columns.reason, columns.detail)
                break
            row |= columns
        else:
            kept.append(row)
    return kept


def _columns(part: str, found: Written[str] | Refusal, run: Run) -> dict[str, str] | Refusal:
    """What a part brings into its row; in a bill something stands for what is not bought, since more is asked of it."""
    if isinstance(found, Written):
        return {part: found.value, f"{part}_response_id": found.response_id}
    if isinstance(run, QuoteRun) and run.stands_for(found.reason):
        return {part: STAND_IN, f"{part}_response_id": ""}
    return found
