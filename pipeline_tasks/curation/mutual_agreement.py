"""Mutual agreement: a query survives only where all reference models share a passage among their best N.

The paper says it twice, differently: section 3.4.2 asks for the same top-N from all three models, Algorithm 3 for a
non-empty intersection of their top-N. The algorithm is followed here; it keeps more queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.curation.texts import PassageTexts
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.models.use import REFERENCE_MODELS


class MutualAgreementParams(StepParams):
    """How much agreement is asked for."""

    models: tuple[str, ...] = Field(REFERENCE_MODELS, min_length=1, description="reference models, best first")
    top_n: int = Field(2, ge=1, description="N: best passages of each model that are compared")


@dataclass(frozen=True)
class Ranking:
    """One model's ranking of one query."""

    model: str
    passage_ids: list[str]
    scores: list[float]


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=LABELLED,
    kind="reduce",
    memory_gib=8,
)
def mutual_agreement(inputs: Inputs, params: MutualAgreementParams, run: Run) -> pa.Table:
    """Keep a query only where the reference models agree, and make the agreed passage its positive.

    Rejects: ``held_out`` (queries of test documents: they are for evaluation), ``no_agreement``,
    ``positive_held_out`` (the agreed passage is of a document in another split than the query's).

    Source: DMRetriever 3.4.2, Algorithm 3 lines 2 to 8.

    Raises:
        InputError: the rankings lack a model or a query.
    """
    texts = PassageTexts(inputs["passages"], inputs["pairs"])
    by_model = _rankings(inputs, params.models)
    labelled = []
    pairs = inputs["pairs"].table(["query_id", "intent", "query", "passage_id", "split"])
    for pair in pairs.to_pylist():
        query_id = pair["query_id"]
        if pair["split"] == "test":
            run.reject(query_id, "held_out", "its document is held out for evaluation")
            continue
        rankings = [_ranking_of(query_id, model, by_model) for model in params.models]
        positive = agreed_positive(rankings, params.top_n)
        if positive is None:
            run.reject(query_id, "no_agreement", _tops(rankings, params.top_n))
        elif texts.split(positive) != pair["split"]:
            run.reject(query_id, "positive_held_out", f"{positive} is in split {texts.split(positive)}")
        else:
            labelled.append(_row(pair, positive, texts.text(positive), rankings, params))
    return LABELLED.table(sorted(labelled, key=lambda row: row["query_id"]))


def agreed_positive(rankings: list[Ranking], top_n: int) -> str | None:
    """The passage in the top N of all rankings that the first (best) ranking puts highest; None without one."""
    shared = set.intersection(*(set(r.passage_ids[:top_n]) for r in rankings))
    return next((p for p in rankings[0].passage_ids[:top_n] if p in shared), None)


def _rankings(inputs: Inputs, models: tuple[str, ...]) -> dict[str, dict[str, Ranking]]:
    versions = inputs.by_last_name("rankings")
    found: dict[str, dict[str, Ranking]] = {}
    for model in models:
        if model not in versions:
            raise InputError(f"no rankings of model {model!r} among {sorted(versions)}; give rankings/{model} as well")
        table = versions[model].table(["query_id", "passage_ids", "scores"])
        columns = (table[name].to_pylist() for name in table.column_names)
        found[model] = {q: Ranking(model, ids, scores) for q, ids, scores in zip(*columns, strict=True)}
    return found


def _ranking_of(query_id: str, model: str, by_model: dict[str, dict[str, Ranking]]) -> Ranking:
    if query_id not in by_model[model]:
        raise InputError(f"rankings/{model} lacks query {query_id}: it is of other pairs; run rank_passages again")
    return by_model[model][query_id]


def _row(pair: dict, positive: str, text: str, rankings: list[Ranking], params: MutualAgreementParams) -> dict:
    votes = []
    for ranking in rankings:
        at = ranking.passage_ids.index(positive)
        votes.append(
            {
                "model": ranking.model,
                "passage_ids": ranking.passage_ids[: params.top_n],
                "positive_rank": at + 1,
                "positive_score": ranking.scores[at],
            }
        )
    return {
        "query_id": pair["query_id"],
        "intent": pair["intent"],
        "query": pair["query"],
        "positive_id": positive,
        "positive": text,
        "source_passage_id": pair["passage_id"],
        "split": pair["split"],
        "votes": votes,
        "best_model": params.models[0],
    }


def _tops(rankings: list[Ranking], top_n: int) -> str:
    return "; ".join(f"{r.model}: {' '.join(r.passage_ids[:top_n])}" for r in rankings)
