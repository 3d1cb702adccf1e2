"""Scores on a judged set, query by query: BM25, models as they came, every stage of trained ones, fusions of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows, Work
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import EVALUATIONS, INSTRUCTED_QUERIES, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.judged_rows import check_name
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.rank_systems import judged_of, rank_systems, ranked_ids

TOLD = ("instruction",)
"""The column of a judged set that a query's own instruction is in, where it has one."""


@step(
    reads={
        "queries": From(INSTRUCTED_QUERIES, "judged/{set_name}"),
        "passages": PASSAGES,
        "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models", optional=True),
        "models": From(None, "model/{size}/finetune", may_be_none=True),
    },
    writes=EVALUATIONS,
    kind="partitioned",
    dataset="eval/{set_name}",
    version="9",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    processes=False,
    secrets=("embeddings",),
)
def evaluate_retriever(inputs: Inputs, params: EvaluationParams, run: PartitionedRun) -> Iterator[Part]:
    """Every measure of every query of a judged set, for each system, with the first passages that it found.

    The corpus is all passages. Models whose embeddings are given are asked with these; vectors of queries that
    ``embed_pairs`` has made are read; every other text is encoded here, as the registry or the model's own files say,
    passages once for all sets.
    Of every embedder the counters ``alignment/<system>``, ``normalised_alignment/<system>`` and ``uniformity/<system>``
    say how it lays out queries and passages. The mean over intents, as in DMRetriever, Table 2, is the view
    ``evaluations``; differences, intervals and p-values are ``foundry evaluate``'s.

    Raises:
        InputError: queries are not of the set, or were judged on other passages, embeddings are not of these, a fusion
            names a system that is not here, two systems have one name, or a name is of nothing.
    """
    yield from scored(score_system, TOLD, inputs, params, run)


def scored(
    work: Work, instruction_columns: Sequence[str], inputs: Inputs, params: EvaluationParams, run: PartitionedRun
) -> Iterator[Part]:
    """Rank by every system, and what ``work`` makes of each one's rankings: a part of rows for each system."""
    check_name(inputs["queries"].manifest.dataset, params.set_name)
    judged = Rows(inputs["queries"])
    of_all = {"measures": [*params.measures], "depth": params.depth, "kept": params.kept}
    partitions = [
        Partition({"queries": judged}, {"ranked": [ranked]}, {"name": system.name, "version": system.version} | of_all)
        for system, ranked in rank_systems(inputs, params, run, instruction_columns)
    ]
    run.count("queries", inputs["queries"].manifest.rows)
    for parts in run.spread(work, partitions, final=True):
        yield from parts


def score_system(given: Partition, run: Run) -> Iterator[pa.Table]:
    """A row per query for one system."""
    judged, found = judged_of(given), ranked_ids(run.store, given)
    yield scored_rows(given, found, judged, score(found, grades_of(judged), given.values["measures"]))


def grades_of(judged: pa.Table, column: str = "grades") -> list[dict[str, int]]:
    """Passage id -> grade, per query."""
    columns = (judged[name].to_pylist() for name in ("passage_ids", column))
    return [dict(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]


def scored_rows(given: Partition, found: list[list[str]], judged: pa.Table, values: dict[str, np.ndarray]) -> pa.Table:
    """One row per query.

    Args:
        given: names the system, its version, and how many passages of each ranking the rows keep.
        found: ids of passages per query, best first.
        judged: the queries with their grades.
        values: measure -> [q].
    """
    system, grades = given.values["name"], grades_of(judged)
    first = [ids[: given.values["kept"]] for ids in found]
    columns = {
        "evaluation_id": [f"{system}/{query_id}" for query_id in judged["query_id"].to_pylist()],
        "system": [system] * judged.num_rows,
        "model_version": [given.values["version"]] * judged.num_rows,
        **{name: judged[name] for name in ("query_id", "intent", "query")},
        "n_relevant": [sum(grade > 0 for grade in known.values()) for known in grades],
        "scores": [
            list(zip(values, row, strict=True)) for row in zip(*(v.tolist() for v in values.values()), strict=True)
        ],
        "passage_ids": first,
        "grades": [[known.get(i) for i in ids] for ids, known in zip(first, grades, strict=True)],
    }
    return pa.table(columns, schema=EVALUATIONS.arrow)
