"""Instructions: what somebody says beside a query so that of all passages that answer it one kind is wanted."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import PAIRS, TOLD_PAIRS
from pipeline_tasks.synthesis.llm.asking import Refusal, write_all
from pipeline_tasks.synthesis.prompting.instructing import INSTRUCTION, InstructingParams, ask


class WriteInstructionsParams(InstructingParams):
    """Which pairs."""

    sample_rate: float = Field(
        1.0, gt=0, le=1, description="fraction of pairs that get an instruction, sampled by their id"
    )
    splits: tuple[Literal["train", "dev", "test"], ...] = Field(
        ("train", "dev"),
        min_length=1,
        description="splits of pairs to use; leave out test where another set is for testing",
    )


@step(
    reads={"pairs": From(PAIRS, "mtp")},
    writes=TOLD_PAIRS,
    kind="map",
    dataset="mtp/instructed",
    version="6",
    pool="llm",
    secrets=("llm",),
)
def write_instructions(rows: pa.Table, params: WriteInstructionsParams, run: Run) -> pa.Table:
    """Ask the LLM for an instruction that goes with each query and under which its positive is wanted.

    The rows are pairs with a column ``instruction``, so whatever reads pairs reads these. Rejects carry the reason of
    the check that refuses; pairs outside the sample or the splits are counted as ``not_sampled``.

    Source: InF-IR 4.1, "Instruction generation"; B.1 for the cut at the first line break.
    """
    pairs = sorted(rows.to_pylist(), key=lambda pair: pair["query_id"])
    asked = [p for p in pairs if p["split"] in params.splits and unit_hash("told", p["query_id"]) < params.sample_rate]
    run.count("not_sampled", len(pairs) - len(asked))
    tasks = [ask(INSTRUCTION, p["query_id"], params, p["positive"], query=p["query"]) for p in asked]
    instructed = []
    for pair, found in zip(asked, write_all(tasks, "instruction", params, run), strict=True):
        if isinstance(found, Refusal):
            run.reject(pair["query_id"], found.reason, found.detail)
            continue
        instructed.append(pair | {"instruction": found.value, "instruction_response_id": found.response_id})
    return TOLD_PAIRS.table(instructed)
