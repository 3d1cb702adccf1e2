"""Hard negatives at difficulty alpha: a build MTT-alpha costs selection alone, the rankings do not depend on alpha."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.curation.texts import PassageTexts
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS, TRIPLETS
from pipeline_tasks.models.use import REFERENCE_MODELS


class MineNegativesParams(StepParams):
    """Difficulty and number of negatives."""

    alpha: float = Field(0.75, gt=0, le=1, description="a negative's cosine is below alpha times the positive's")
    n_negatives: int = Field(9, ge=1, description="K: negatives per query; fewer stay fewer")
    models: tuple[str, ...] = Field(REFERENCE_MODELS[:1], description="models that rank; must hold each best_model")


@step(
    reads={
        "labelled": LABELLED,
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=TRIPLETS,
    kind="reduce",
    dataset="mtt/{alpha}",
    memory_gib=8,
)
def mine_negatives(inputs: Inputs, params: MineNegativesParams, run: Run) -> pa.Table:
    """Give every labelled query up to K hard negatives in rank order, each with sim < alpha * sim(positive).

    Never a negative: the positive, the source passage, the query's own generated positive, and any passage of another
    split than the query's, so that held-out pages never enter training. A query without any negative is the reject
    ``no_negative``; how many got fewer than K is the counter ``short_queries``.

    Source: DMRetriever 3.4.3, Equation 3, Algorithm 3 lines 10 to 15.
    """
    texts = PassageTexts(inputs["passages"], inputs["pairs"])
    rankings = {model: _by_query(version.table()) for model, version in inputs.by_last_name("rankings").items()}
    own = dict(zip(*(inputs["pairs"].table()[c].to_pylist() for c in ("query_id", "positive_id")), strict=True))
    triplets = []
    for row in inputs["labelled"].table().to_pylist():
        ids, scores = rankings[row["best_model"]][row["query_id"]]
        positive_score = scores[ids.index(row["positive_id"])]
        known = {row["positive_id"], row["source_passage_id"], own[row["query_id"]]}
        allowed = np.array([i not in known and texts.split(i) == row["split"] for i in ids], dtype=bool)
        chosen = select_negatives(np.asarray(scores, np.float32), positive_score, allowed, params)
        if not len(chosen):
            run.reject(row["query_id"], "no_negative", f"no passage below {params.alpha} * {positive_score:.3f}")
            continue
        run.count("short_queries", int(len(chosen) < params.n_negatives))
        triplets.append(_row(row, ids, scores, positive_score, chosen.tolist(), texts))
    run.counters.update(_gaps(triplets))
    return TRIPLETS.table(triplets)


def select_negatives(
    scores: np.ndarray, positive_score: float, allowed: np.ndarray, params: MineNegativesParams
) -> np.ndarray:
    """Positions of the first K allowed candidates below the margin, in rank order.

    Shapes: scores [n] float32 descending; allowed [n] bool; result [<= K].
    """
    below = scores < np.float32(params.alpha) * np.float32(positive_score)
    return np.flatnonzero(below & allowed)[: params.n_negatives]


def _by_query(table: pa.Table) -> dict[str, tuple[list[str], list[float]]]:
    columns = (table[name].to_pylist() for name in ("query_id", "passage_ids", "scores"))
    return {query: (ids, scores) for query, ids, scores in zip(*columns, strict=True)}


def _row(
    row: dict, ids: list[str], scores: list[float], positive_score: float, chosen: list[int], texts: PassageTexts
) -> dict:
    negatives = [ids[i] for i in chosen]
    kept = {name: row[name] for name in ("query_id", "intent", "query", "positive_id", "positive", "split")}
    return kept | {
        "positive_score": positive_score,
        "negative_ids": negatives,
        "negatives": [texts.text(i) for i in negatives],
        "negative_scores": [scores[i] for i in chosen],
        "mining_model": row["best_model"],
    }


def _gaps(triplets: list[dict]) -> Counter[str]:
    """Sums of positive and negative cosines, for the build's summary."""
    found: Counter[str] = Counter(negatives=sum(len(t["negative_ids"]) for t in triplets))
    found["positive_score_sum"] = round(sum(t["positive_score"] for t in triplets), 4)  # type: ignore[assignment]
    found["negative_score_sum"] = round(sum(sum(t["negative_scores"]) for t in triplets), 4)  # type: ignore[assignment]
    return found
