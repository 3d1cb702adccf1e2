"""Poison: for an instruction, a query and their passage, near ones that do not belong together with them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TOLD_PAIRS, TUPLES
from pipeline_tasks.synthesis.asking import Asked, Refusal, write_all
from pipeline_tasks.synthesis.instructing import (
    PASSAGE,
    POISONED_INSTRUCTION,
    POISONED_QUERY,
    InstructingParams,
    Task,
    ask,
)


class PoisonTuplesParams(InstructingParams):
    """Which model poisons."""


@step(
    reads={"pairs": From(TOLD_PAIRS, "mtp/instructed")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/poisoned",
    version="5",
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
    for task in (POISONED_INSTRUCTION, POISONED_QUERY):
        pairs = _with(pairs, f"poisoned_{task.field}", [_poison(task, p, params) for p in pairs], params, run)
    for part, told, query in (
        ("instruction_passage", "poisoned_instruction", "query"),
        ("query_passage", "instruction", "poisoned_query"),
    ):
        asked = [
            ask(PASSAGE, f"{part}/{p['query_id']}", params, p["positive"], query=p[query], instruction=p[told])
            for p in pairs
        ]
        pairs = _with(pairs, part, asked, params, run)
    return TUPLES.table([{name: pair[name] for name in TUPLES.arrow.names} for pair in pairs])


def _poison(task: Task, pair: dict[str, Any], params: PoisonTuplesParams) -> Asked[str] | Refusal:
    return ask(task, pair["query_id"], params, pair["positive"], query=pair["query"], instruction=pair["instruction"])


def _with(
    pairs: list[dict[str, Any]], part: str, asked: list[Asked[str] | Refusal], params: PoisonTuplesParams, run: Run
) -> list[dict[str, Any]]:
    """The pairs for which that part was written, with it; the others are rejects."""
    found = []
    for pair, one in zip(pairs, write_all(asked, part, params, run), strict=True):
        if isinstance(one, Refusal):
            run.reject(pair["query_id"], one.reason, one.detail)
            continue
        found.append(pair | {part: one.value, f"{part}_response_id": one.response_id})
    return found
