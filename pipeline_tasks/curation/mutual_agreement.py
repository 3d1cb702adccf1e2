"""Which queries survive, and with which positive: those whose reference models agree.

The paper says it twice, differently: section 3.4.2 keeps a query where all three models return the *same* top N,
Algorithm 3 where the *intersection* of their top N is not empty. The algorithm is the default (``mutual``), the
sentence is ``identical``. Algorithm 3 filters the pairs of the domain alone: general-domain pairs keep the positive
that they came with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.curation.agreement import NOBODY, Strategy, Votes, agreed, within_cap
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.curation.judged import Judged
from pipeline_tasks.curation.passage_index import PassageIndex
from pipeline_tasks.curation.splits import SPLITS
from pipeline_tasks.curation.vote_columns import tops, vote_lists
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.retrieval.judges import judges, judging_models

_BLOCK = 65_536


class MutualAgreementParams(StepParams):
    """How much agreement is asked for, and of whom."""

    strategy: Strategy = Field(
        "mutual",
        description="mutual: the models' top N share a passage; identical: all have the same top N; "
        "consistency: the best model has the pair's own positive in its top N; none: no filter",
    )
    top_n: int = Field(2, ge=1, description="N: best passages of each model that are compared")
    judges: dict[str, tuple[str, ...]] = Field(
        default_factory=judges, min_length=1, description="intent, or any -> models that judge its queries, best first"
    )
    models: tuple[str, ...] = Field(
        default_factory=judging_models,
        min_length=1,
        description="models whose rankings are read; without judges= they judge every query, best first",
    )
    filtered: tuple[str, ...] = Field(("dm",), description="origins that are filtered; others keep their positive")
    most_general: int = Field(
        200_000, ge=0, description="pairs kept of one origin but dm, after the filter (DMRetriever, Table 11)"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_tells_the_other(cls, given: dict[str, Any]) -> dict[str, Any]:
        models, judges = given.get("models"), given.get("judges")
        if models and not judges:
            return given | {"judges": {ANY: models}}
        if judges and not models:
            return given | {"models": tuple(dict.fromkeys(model for panel in judges.values() for model in panel))}
        return given


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=LABELLED,
    kind="reduce",
    version="2",
    memory_gib=4,
)
def mutual_agreement(inputs: Inputs, params: MutualAgreementParams, run: Run) -> Iterator[pa.Table]:
    """Keep a query only where the reference models agree, and make the agreed passage its positive.

    Rejects: ``held_out`` (queries of test documents: they are for evaluation), ``no_agreement`` (mutual, identical),
    ``not_retrieved`` (consistency), ``positive_held_out`` (the positive is of a document in another split than the
    query's), ``over_cap``.

    Source: DMRetriever 3.4.2, Algorithm 3 lines 2 to 9, appendix J.

    Raises:
        InputError: the rankings lack a model or a query, or nobody judges an intent.
    """
    index = PassageIndex.read(inputs["passages"], inputs["pairs"], run.scratch)
    judged = Judged.read(inputs["pairs"], index, params.judges)
    filtered = _is_in(judged.origins, (*params.filtered, ""))
    own_wanted = ~filtered | (params.strategy in ("consistency", "none"))
    votes = judged.votes(inputs.by_last_name("rankings"), index, params.top_n, own_wanted, run)
    positive = np.where(filtered, agreed(votes.codes, votes.seen, judged.own, params.strategy), judged.own)
    kept = _refuse(judged, votes, positive, index, params, run)
    _count(judged, positive, kept, run)
    at = 0
    for block in inputs["pairs"].batches(["query_id", "intent", "query", "passage_id", "split"], _BLOCK):
        rows = at + np.flatnonzero(kept[at : at + block.num_rows])
        if len(rows):
            yield _labelled(block.take(pa.array(rows - at)), rows, judged, votes, positive, index)
        at += block.num_rows


def _refuse(
    judged: Judged, votes: Votes, positive: np.ndarray, index: PassageIndex, params: MutualAgreementParams, run: Run
) -> np.ndarray:
    """Reject every query that is not kept, for the first reason that holds; whether each is kept, [q]."""
    kept = ~judged.held_out
    _reject(run, judged, ~kept, "held_out", "its document is held out for evaluation")
    lost = kept & (positive == NOBODY)
    reason = "not_retrieved" if params.strategy == "consistency" else "no_agreement"
    rows = np.flatnonzero(lost)
    run.reject_all(judged.ids.take(pa.array(rows)), reason, tops(judged, votes, rows, index))
    kept &= ~lost
    moved = kept & (index.splits[positive] != judged.split)
    names, splits = index.ids.take(pa.array(positive[moved])), pa.array(index.splits[positive[moved]])
    details = pc.binary_join_element_wise(names, pa.array(SPLITS).take(splits), " is in split ")
    _reject(run, judged, moved, "positive_held_out", details)
    kept &= ~moved
    general = np.flatnonzero(kept & ~_is_in(judged.origins, ("dm", "")))
    hashes = text_hashes(judged.ids.take(pa.array(general)))
    over = np.zeros_like(kept)
    over[general] = ~within_cap(hashes, judged.origins.indices.to_numpy()[general], params.most_general)
    _reject(run, judged, over, "over_cap", f"beyond {params.most_general} pairs of its origin, by the hash of its id")
    return kept & ~over


def _reject(run: Run, judged: Judged, which: np.ndarray, reason: str, detail: str | pa.Array) -> None:
    ids = judged.ids.filter(pa.array(which))
    run.reject_all(ids, reason, pa.repeat(pa.scalar(detail), len(ids)) if isinstance(detail, str) else detail)


def _is_in(column: pa.DictionaryArray, names: tuple[str, ...]) -> np.ndarray:
    return np.isin(column.dictionary.to_pylist(), names)[column.indices.to_numpy()]


def _count(judged: Judged, positive: np.ndarray, kept: np.ndarray, run: Run) -> None:
    """Queries kept by origin and intent, and those that keep the positive they came with."""
    run.count("own_positives", int((kept & (positive == judged.own)).sum()))
    for name, column in (("kept_of_origin", judged.origins), ("kept_of_intent", judged.intents)):
        found = np.bincount(column.indices.to_numpy()[kept], minlength=len(column.dictionary))
        for value, n in zip(column.dictionary.to_pylist(), found.tolist(), strict=True):
            run.count(f"{name}/{value or 'unknown'}", n)


def _labelled(
    block: pa.Table, rows: np.ndarray, judged: Judged, votes: Votes, positive: np.ndarray, index: PassageIndex
) -> pa.Table:
    codes = pa.array(positive[rows])
    best = judged.judges[rows, 0]
    return pa.table(
        {
            **{name: block[name] for name in ("query_id", "intent", "query")},
            "positive_id": index.ids.take(codes),
            "positive": index.texts.take(codes).cast(pa.string()),
            "source_passage_id": block["passage_id"],
            "split": block["split"],
            "votes": vote_lists(judged, votes, rows, positive, index),
            "best_model": pa.array(judged.models).take(pa.array(best)),
        }
    )
