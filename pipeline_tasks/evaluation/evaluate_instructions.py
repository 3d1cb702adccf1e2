"""Whether systems follow instructions: each query is asked twice, and what should move is looked for."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import ALTERED_QUERIES, EVALUATIONS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import grades_of, scored, scored_rows
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.judge_queries import HELD_OUT
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.p_mrr import P_MRR, p_mrr
from pipeline_tasks.evaluation.rank_systems import judged_of, ranked_ids

P_MRR_DEPTH = 1000
"""Ranks that p-MRR looks at; FollowIR reorders as many passages of each query."""
UNDER_CHANGED = "-changed"
MEASURES = ("ndcg@5", "map@1000")
TOLD = ("instruction", "changed_instruction")


class EvaluateInstructionsParams(EvaluationParams):
    """What is compared on which queries."""

    set_name: str = Field(HELD_OUT, description="name of the judged set; also of the dataset eval/<set>-instructions")
    measures: tuple[str, ...] = Field(
        MEASURES, min_length=1, description="measures of the rankings under either instruction"
    )

    @property
    def depth(self) -> int:
        """Ranks that p-MRR, the measures and the rows look at."""
        return max(super().depth, P_MRR_DEPTH)


@step(
    reads={
        "queries": From(ALTERED_QUERIES, "instructed/{set_name}"),
        "passages": PASSAGES,
        "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models", optional=True),
        "models": From(None, "model/{size}/finetune", may_be_none=True),
    },
    writes=EVALUATIONS,
    kind="partitioned",
    dataset="eval/{set_name}-instructions",
    version="7",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    processes=False,
    secrets=("embeddings",),
)
def evaluate_instructions(inputs: Inputs, params: EvaluateInstructionsParams, run: PartitionedRun) -> Iterator[Part]:
    """p-MRR of every query for each system, and every measure under the original and under the changed instruction.

    A query is asked with each of its instructions, put where the model has a place for one; BM25 is asked without, and
    so stays at 0. Measures under the changed instruction have ``-changed`` behind their names; the passages that a row
    keeps are those under the original one. The corpus is all passages, of which p-MRR sees the first 1,000 whatever the
    measures: FollowIR reorders 1,000 given passages of each query, so on its sets the two differ.

    Source: Weller et al. 2024, "FollowIR"; InF-IR 6.1.

    Raises:
        InputError: as of ``evaluate_retriever``.
    """
    yield from scored(score_instructions, TOLD, inputs, params, run)


def score_instructions(given: Partition, run: Run) -> Iterator[pa.Table]:
    """A row per query for one system."""
    judged, found = judged_of(given), ranked_ids(run.store, given)
    grades = [grades_of(judged, column) for column in ("grades", "changed_grades")]
    before, after = found[: judged.num_rows], found[judged.num_rows :]
    measures = given.values["measures"]
    first, then = ([ids[:P_MRR_DEPTH] for ids in rankings] for rankings in (before, after))
    values = {P_MRR: p_mrr(first, then, *grades), **score(before, grades[0], measures)}
    values |= {f"{name}{UNDER_CHANGED}": value for name, value in score(after, grades[1], measures).items()}
    yield scored_rows(given, before, judged, values)
