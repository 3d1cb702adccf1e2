"""Scores on held-out queries: untrained backbone, BM25, the reference models and every stage of the trained model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import EVALUATIONS, PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.report import score_rows
from pipeline_tasks.evaluation.systems import rank_bm25, rank_fused, rank_model, rank_untrained
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.retrieval.judges import judging_models
from pipeline_tasks.retrieval.search import top_k

_FUSED_DEPTH = 200


class EvaluateRetrieverParams(StartParams):
    """What is compared on which queries."""

    set_name: str = Field("heldout", description="name of the evaluation set; also of the dataset eval/<set>")
    size: str = Field("33m", description="size whose untrained backbone is the baseline")
    models: tuple[str, ...] = Field(
        default_factory=judging_models, description="reference models, where no inputs are given"
    )
    fusions: tuple[str, ...] = Field((), description="systems to fuse by rank and score too: rrf(bm25,33m/pretrain)")
    k: int = Field(10, ge=1, description="cut-off rank of the metrics")


@dataclass(frozen=True)
class HeldOut:
    """Held-out queries and the corpus they are asked of.

    Attributes:
        query_ids: [q].
        queries: [q] texts without instruction.
        intents: [q].
        relevant: [q] id of the passage that the query was written from.
        passage_ids: [n], ascending.
        passages: [n] texts.
    """

    query_ids: list[str]
    queries: list[str]
    intents: list[str]
    relevant: list[str]
    passage_ids: list[str]
    passages: list[str]


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models"),
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{item}", each="models"),
        "models": From(None, "model/{size}/finetune"),
    },
    writes=EVALUATIONS,
    kind="reduce",
    dataset="eval/{set_name}",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=8,
)
def evaluate_retriever(inputs: Inputs, params: EvaluateRetrieverParams, run: Run) -> pa.Table:
    """NDCG@10, MRR@10 and recall@10 per intent of every system, and of fusions, on queries of held-out documents.

    A query's one relevant passage is the PDF passage it was written from; the corpus is all PDF passages. No passage of
    a held-out document enters training, as positive or as negative. ``average`` is the mean over intents, as in
    DMRetriever, Table 2.

    Raises:
        InputError: no query is held out, a reference model lacks vectors of queries or passages, or a fusion names a
            system that is not here.
    """
    heldout = _heldout(inputs)
    rows: list[dict] = []
    systems = [*_systems(inputs, params, heldout, run)]
    ranked_by = {system: ranked for system, _, ranked in systems}
    systems += [(name, "", rank_fused(name, ranked_by, params.k)) for name in params.fusions]
    for system, version, ranked in systems:
        ids = [[heldout.passage_ids[i] for i in row[: params.k] if i >= 0] for row in ranked]
        judged = [{relevant: 1} for relevant in heldout.relevant]
        rows += score_rows(system, version, ids, judged, heldout.intents, params.k)
    run.count("systems", len(systems))
    run.count("queries", len(heldout.queries))
    return EVALUATIONS.table(rows)


def _heldout(inputs: Inputs) -> HeldOut:
    pairs = inputs["pairs"].table(["query_id", "query", "intent", "passage_id", "split"]).to_pylist()
    test = sorted((p for p in pairs if p["split"] == "test"), key=lambda p: p["query_id"])
    if not test:
        raise InputError(f"{inputs['pairs'].manifest.ref} has no held-out query; raise test_fraction or sample_rate")
    passages = inputs["passages"].table(["passage_id", "text"]).sort_by("passage_id")
    columns = ([p[name] for p in test] for name in ("query_id", "query", "intent", "passage_id"))
    return HeldOut(*columns, *(passages[name].to_pylist() for name in ("passage_id", "text")))


def _systems(
    inputs: Inputs, params: EvaluateRetrieverParams, heldout: HeldOut, run: Run
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name, model version and the ranked passage positions [q, depth] of each system."""
    deepest = max(params.k, _FUSED_DEPTH) if params.fusions else params.k
    depth = min(deepest, len(heldout.passage_ids))
    models = inputs.each("models")
    embeddings, queries = inputs.by_last_name("embeddings"), inputs.by_last_name("queries")
    if embeddings.keys() != queries.keys():
        raise InputError(f"embeddings are of {list(embeddings)}, queries of {list(queries)}; give both of each model")
    with run.progress(2 + len(embeddings) + len(models), "systems") as meter:
        asked = heldout.queries, heldout.intents, heldout.passages, depth, run.scratch
        yield f"{params.size}/untrained", "", rank_untrained(params.start, *asked)
        meter.advance()
        yield "bm25", "", rank_bm25(heldout.queries, heldout.passages, depth)
        meter.advance()
        for model in embeddings:
            yield model, "", _rank_stored(embeddings[model], queries[model], heldout, depth)
            meter.advance()
        for version in models:
            yield system_name(version), str(version.manifest.ref), rank_model(version, *asked)
            meter.advance()


def system_name(version: Version) -> str:
    """``<size>/<stage>``, and for fine-tuning the alpha of its iteration."""
    _, size, stage = version.manifest.dataset.split("/")
    alpha = version.manifest.params.get("alpha")
    return f"{size}/{stage}-{alpha}" if alpha is not None else f"{size}/{stage}"


def _rank_stored(passages: Version, queries: Version, heldout: HeldOut, depth: int) -> np.ndarray:
    """Search with the embeddings that curation used: nothing is encoded again."""
    corpus = passages.table(["passage_id", "embedding"]).sort_by("passage_id")
    if corpus["passage_id"].to_pylist() != heldout.passage_ids:
        raise InputError(f"{passages.manifest.ref} is not of the evaluated passages; run embed_passages on them")
    asked = queries.table(["query_id", "query_embedding"])
    row_of = {query_id: i for i, query_id in enumerate(asked["query_id"].to_pylist())}
    wanted = asked.take(pa.array([row_of[q] for q in heldout.query_ids]))
    return top_k(matrix(wanted["query_embedding"]), matrix(corpus["embedding"]), depth)[0]
