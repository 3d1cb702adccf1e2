"""Scores on a judged set, query by query: BM25, models as they came, every stage of trained ones, fusions of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.endpoint import PaidParams
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import Secret
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation import systems
from pipeline_tasks.evaluation.metrics import Measure, score
from pipeline_tasks.evaluation.stored_vectors import passage_vectors, query_vectors
from pipeline_tasks.evaluation.systems import BM25, FUSED_DEPTH, Asked, is_folder, is_fusion
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.embed_passages import noted
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.encoders import Precision, instructions_of
from pipeline_tasks.retrieval.judges import judging_models
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.retrieval.served_encoder import open_or_ask

MEASURES = ("ndcg@10", "map@10", "mrr@10", "recall@10", "hit@10")


class EvaluateRetrieverParams(StartParams, PaidParams):
    """What is compared on which queries."""

    set_name: str = Field("heldout", description="name of the judged set; also of the dataset eval/<set>")
    size: str = Field("33m", description="size whose untrained start is compared, too; empty: none is")
    models: tuple[str, ...] = Field(
        default_factory=judging_models, description="models whose stored embeddings are read, where there are any"
    )
    systems: tuple[str, ...] = Field(
        (BM25,),
        description="bm25, names of `foundry models`, folders of models, and fusions by rank: rrf(bm25,33m/pretrain)",
    )
    measures: tuple[str, ...] = Field(MEASURES, description="ndcg, map, mrr, recall, hit, precision at a cut-off")
    kept: int = Field(10, ge=0, description="passages of each ranking that the rows keep")

    def model_post_init(self, context: Any) -> None:
        """Refuse what cannot be meant before anything is computed."""
        super().model_post_init(context)
        for measure in self.measures:
            Measure.parse(measure)

    def identity(self) -> dict[str, Any]:
        """The parameters, what each named system is, wherever its folder lies, and what instructed ones are told."""
        found = super().identity() | {"systems": [systems.identity(name) for name in self.systems]}
        told = next(filter(None, (instructions_of(get(name)) for name in self._registered)), {})
        return found | ({"instructions": told} if told else {})

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """Only a served model wants a key."""
        return declared if any(is_served(get(name)) for name in self._registered) else ()

    @property
    def _registered(self) -> tuple[str, ...]:
        """All that the registry knows."""
        return (*self.models, *(name for name in self.systems if _is_registered(name)))

    @property
    def depth(self) -> int:
        """Ranks that the measures, the rows and the fusions look at."""
        deepest = max([self.kept, *(Measure.parse(measure).k for measure in self.measures)])
        judged = any(Measure.parse(measure).judged_only for measure in self.measures)
        return max(deepest, FUSED_DEPTH) if judged or any(map(is_fusion, self.systems)) else deepest


def _is_registered(name: str) -> bool:
    return name != BM25 and not is_fusion(name) and not is_folder(name)


@step(
    reads={
        "queries": From(JUDGED_QUERIES, "judged/{set_name}"),
        "passages": PASSAGES,
        "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{item}", each="models", optional=True),
        "models": From(None, "model/{size}/finetune"),
    },
    writes=EVALUATIONS,
    kind="reduce",
    dataset="eval/{set_name}",
    version="3",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    secrets=("embeddings",),
)
def evaluate_retriever(inputs: Inputs, params: EvaluateRetrieverParams, run: Run) -> Iterator[pa.Table]:
    """Every measure of every query of a judged set, for each system, with the first passages that it found.

    The corpus is all passages. Models whose embeddings are given are asked with these; vectors of queries that
    ``embed_pairs`` has made are read; every other text is encoded here, as the registry or the model's own files say.
    The mean over intents, as in DMRetriever, Table 2, is the view ``evaluations``; differences, intervals and p-values
    are ``foundry evaluate``'s.

    Raises:
        InputError: embeddings are not of these passages, a fusion names a system that is not here, two systems have one
            name, or a name is of nothing.
    """
    judged = inputs["queries"].table().sort_by("query_id")
    asked = asked_of(judged, inputs["passages"])
    for system, found in rankings(asked, inputs, params, run):
        yield scored_rows(system, found, judged, score(found, grades_of(judged), params.measures), params.kept)


def rankings(
    asked: Asked, inputs: Inputs, params: EvaluateRetrieverParams, run: Run
) -> Iterator[tuple[System, list[list[str]]]]:
    """Each system with the ids of the passages that it ranks for each query, best first.

    Raises:
        InputError: as of the step.
    """
    systems_there = [*_systems(inputs, params, run)]
    depth = min(params.depth, len(asked.passages))
    ranked: dict[str, np.ndarray] = {}
    with run.progress(len(systems_there), "systems") as meter:
        for system in systems_there:
            if system.name in ranked:
                raise InputError(f"two systems are called {system.name!r}: leave one of them to another evaluation")
            ranked[system.name] = system.rank(asked, ranked, depth)
            yield system, asked.named(ranked[system.name])
            meter.advance()
    run.count("systems", len(ranked))
    run.count("queries", len(asked.queries))


def asked_of(queries: pa.Table, corpus: Version) -> Asked:
    """Queries, each with its own instruction where it has one, and all passages of a corpus."""
    passages = corpus.table(["passage_id", "text"]).sort_by("passage_id")
    texts, intents = (queries[name].to_pylist() for name in ("query", "intent"))
    own = queries["instruction"].to_pylist() if "instruction" in queries.column_names else None
    return Asked(texts, intents, passages["passage_id"].to_pylist(), passages["text"].to_pylist(), own)


@dataclass(frozen=True)
class System:
    """One thing under evaluation.

    Attributes:
        name: as it is called in the rows.
        version: ``dataset@version`` of a trained model, else empty.
        rank: from what is asked, the rankings so far and a depth to positions [q, depth], best first, -1 after the end.
    """

    name: str
    version: str
    rank: Callable[[Asked, dict[str, np.ndarray], int], np.ndarray]


def _systems(inputs: Inputs, params: EvaluateRetrieverParams, run: Run) -> Iterator[System]:
    """Fusions last, because they need the others."""
    if params.has_start:
        open_start = partial(systems.encoder_of_start, params.start, run.scratch)
        yield System(f"{params.size}/untrained", "", _by(open_start))
    named = [name for name in params.systems if not is_fusion(name)]
    for name in dict.fromkeys((*named, *inputs.by_last_name("embeddings"))):
        if name == BM25:
            yield System(name, "", lambda asked, _, depth: asked.rank_bm25(depth))
        elif is_folder(name):
            yield System(name, "", _by(partial(systems.encoder_of_folder, name)))
        else:
            yield System(name, "", partial(_rank_registered, name, inputs, params, run))
    trained = inputs.each("models")
    names = Counter(system_name(version) for version in trained)
    for version in trained:
        opened, name = partial(systems.encoder_of_version, version, run.scratch), system_name(version)
        called = name if names[name] == 1 else f"{name}@{version.manifest.id}"
        yield System(called, str(version.manifest.ref), _by(opened))
    for name in filter(is_fusion, params.systems):
        yield System(name, "", partial(_rank_fused, name))


def _by(opened: Callable[[], Encoder]) -> Callable[[Asked, dict[str, np.ndarray], int], np.ndarray]:
    return lambda asked, _, depth: asked.rank(opened(), depth)


def _rank_registered(
    name: str, inputs: Inputs, params: EvaluateRetrieverParams, run: Run, asked: Asked, _: Any, depth: int
) -> np.ndarray:
    """By vectors that are there already; the model is opened only for texts that have none."""
    stored = inputs.by_last_name("embeddings").get(name)
    precision: Precision = stored.manifest.params["precision"] if stored else "float32"
    passages = passage_vectors(stored, asked.passage_ids) if stored else None
    queries = query_vectors(inputs["queries"], name, precision)
    run.count("vectors_read", sum(len(read) for read in (passages, queries) if read is not None))
    if passages is None or queries is None:
        encoder = open_or_ask(name, precision, run.store, params.terms(run))
        n_missing = len(asked.passages) * (passages is None) + len(asked.queries) * (queries is None)
        with noted(run, encoder, n_missing):
            passages = encoder.encode_passages(asked.passages) if passages is None else passages
            queries = asked.encoded_by(encoder) if queries is None else queries
    return top_k(queries, passages, depth)[0]


def _rank_fused(name: str, _: Asked, ranked: dict[str, np.ndarray], depth: int) -> np.ndarray:
    return systems.rank_fused(name, ranked, depth)


def system_name(version: Version) -> str:
    """``<size>/<stage>``, and for fine-tuning the alpha of its iteration."""
    _, size, stage = version.manifest.dataset.split("/")
    alpha = version.manifest.params.get("alpha")
    return f"{size}/{stage}-{alpha}" if alpha is not None else f"{size}/{stage}"


def grades_of(judged: pa.Table, column: str = "grades") -> list[dict[str, int]]:
    """Passage id -> grade, per query."""
    columns = (judged[name].to_pylist() for name in ("passage_ids", column))
    return [dict(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]


def scored_rows(
    system: System, found: list[list[str]], judged: pa.Table, values: dict[str, np.ndarray], kept: int
) -> pa.Table:
    """One row per query.

    Args:
        system: that ranked.
        found: ids of passages per query, best first.
        judged: the queries with their grades.
        values: measure -> [q].
        kept: passages of each ranking that the rows keep.
    """
    grades = grades_of(judged)
    first = [ids[:kept] for ids in found]
    columns = {
        "evaluation_id": [f"{system.name}/{query_id}" for query_id in judged["query_id"].to_pylist()],
        "system": [system.name] * judged.num_rows,
        "model_version": [system.version] * judged.num_rows,
        **{name: judged[name] for name in ("query_id", "intent", "query")},
        "n_relevant": [sum(grade > 0 for grade in known.values()) for known in grades],
        "scores": [
            list(zip(values, row, strict=True)) for row in zip(*(v.tolist() for v in values.values()), strict=True)
        ],
        "passage_ids": first,
        "grades": [[known.get(i) for i in ids] for ids, known in zip(first, grades, strict=True)],
    }
    return pa.table(columns, schema=EVALUATIONS.arrow)
