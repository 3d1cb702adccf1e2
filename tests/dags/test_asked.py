"""A reference model of ``build_triplets`` encodes and ranks queries of the intents that it judges, and no others."""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from foundry_airflow.outline import outline, read_dag
from foundry_airflow.rankers import Rankers

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.curation.score_triplets import score_triplets
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.models.registry import models
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.fuse_rankings import fuse_rankings
from pipeline_tasks.retrieval.rank_passages import rank_passages
from pipeline_tasks.retrieval.reference_models import default_models, default_panels
from tests.retrieval.endpoint import serving
from tests.stores import go, put, rows

TOPICS = ("flood", "storm", "smoke", "quake")
WIDTH = {spec.endpoint_name: spec.dim for spec in models()}


@pytest.fixture
def table_5(store_folder, monkeypatch):
    """The assignment of the paper."""
    monkeypatch.setenv("FOUNDRY_ASSIGNMENT", "table-5")
    settings.cache_clear()


@pytest.fixture
def endpoint(table_5, monkeypatch):
    """All models of it at an endpoint: near are texts of one topic, each model has tastes of its own."""

    def vector(model: str, text: str) -> np.ndarray:
        topic = np.random.default_rng(crc32(text.split()[-1].encode())).normal(size=WIDTH[model])
        return topic + np.random.default_rng(crc32(f"{model} {text}".encode())).normal(size=WIDTH[model])

    def answer(body: dict) -> dict:
        texts = enumerate(body["input"])
        return {"data": [{"index": i, "embedding": vector(body["model"], text).tolist()} for i, text in texts]}

    with serving() as running:
        running.answer = answer
        monkeypatch.setenv("FOUNDRY_SERVED_MODELS", ",".join(default_models()))
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", running.url)
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_PRICE", "free")
        settings.cache_clear()
        yield running


def pairs_of(origin: str, intents: tuple[str, ...]) -> list[dict]:
    """A pair of each intent and topic; those of ``dm`` are of passages."""
    return [
        {"query_id": f"{origin} {intent} {topic}", "intent": intent, "query": f"{origin} {intent} asks for {topic}"}
        | {"positive_id": f"{origin} {intent} g-{topic}", "positive": f"{origin} says to {intent} of {topic}"}
        | {"passage_id": f"p-0 {topic}" if origin == "dm" else "", "doc_id": "d", "origin": origin, "split": "train"}
        for intent in intents
        for topic in TOPICS
    ]


def plant(store: LocalStore) -> None:
    passages = [{"passage_id": f"p-{i} {topic}", "text": f"page {i} on {topic}"} for i in range(3) for topic in TOPICS]
    put(store, PASSAGES, [row | {"doc_id": "d", "split": "train"} for row in passages])
    general = [*pairs_of("gd/all_nli", ("nli",)), *pairs_of("faq", ("qa", "sts"))]
    put(store, PAIRS, pairs_of("dm", tuple(default_panels())), general, dataset="mtp")


def told(root: Path, **conf: object) -> dict[str, dict]:
    """Model -> by what it is limited in a run of the DAG."""
    steps = json.loads(json.dumps(outline(read_dag(root / "dags", "build_triplets"), conf)))["steps"]
    limits = (one["values"] for one in steps if one["step"] == "embed_pairs")
    return {one.pop("model"): {name: value for name, value in one.items() if value is not None} for one in limits}


def build(store: LocalStore, limits: dict[str, dict]) -> tuple[dict[str, list], float]:
    """What ``build_triplets`` makes, and how many texts it encodes for it."""
    n_encoded, found = 0.0, {}
    for model, limit in limits.items():
        go(store, embed_passages, model=model)
        n_encoded += go(store, embed_pairs, model=model, **limit).counters["texts_encoded"]
        go(store, rank_passages, model=model, depth=12)
        found[model] = rows(store, f"rankings/{model}")
    go(store, mutual_agreement, strategy="mutual")
    go(store, mine_negatives, alpha=0.95)
    go(store, score_triplets, alpha=0.95)
    return found | {name: rows(store, name) for name in ("labelled", "labelled/rejects", "mtt/0.95-kd")}, n_encoded


def test_labels_and_triplets_are_those_of_full_rankings(endpoint, store_folder, root):
    plant(store := LocalStore(store_folder))
    plant(other := LocalStore(store_folder / "other"))  # in one store the second would take over what the first encoded
    (full, n_full), (limited, n_limited) = build(other, told(root, fusion=True)), build(store, told(root))
    intent_of, n_models = {row["query_id"]: row["intent"] for row in rows(store, "mtp")}, len(default_models())
    for model in default_models():
        judged = [row for row in full[model] if model in default_panels()[intent_of[row["query_id"]]]]
        assert limited.pop(model) == judged and 0 < len(judged) < len(full.pop(model)) == len(intent_of)
    assert limited == full and len(full["labelled"]) > 12 and full["labelled/rejects"] and full["mtt/0.95-kd"]
    assert n_full - n_limited == (n_models - 3) * (len(intent_of) + len(TOPICS)), "queries, and positives of gd/all_nli"
    with pytest.raises(InputError, match="is not of mtp@.* row by row; rank these pairs, of all intents"):
        go(store, fuse_rankings, models=default_models())
    with pytest.raises(InputError, match="lacks query .* of other intents; embed all that it judges"):
        go(store, mutual_agreement, judges={"any": default_models()})


def test_the_dag_limits_a_model_to_what_it_judges_unless_all_are_fused(table_5, store_folder, root):
    plant(LocalStore(store_folder))
    limits = told(root)
    judged = {model: [one for one, panel in default_panels().items() if model in panel] for model in default_models()}
    assert {model: limit["intents"] for model, limit in limits.items()} == judged
    assert limits["nv-embed-v2"]["of_one_intent"] == {"gd/signal1m": "twitter"}
    sets = set(limits["gte-qwen2-7b-instruct"]["of_one_intent"])
    assert {"gd/paq", "gd/xnli"} < sets and sets.isdisjoint({"gd/quora", "gd/altlex"})
    assert told(root, fusion=True) == dict.fromkeys(limits, {})


def test_who_judges_all_intents_or_teaches_alone_is_asked_all(store_folder, root):
    plant(LocalStore(store_folder))
    assert [*told(root).values()] == [{}] * 3
    fusion = read_dag(root / "dags", "build_triplets").param("fusion")
    who = Rankers(["bm25", "a", "b", "c"], ["bm25", "a"], [], {"qa": ["bm25", "c"], "sts": ["a", "b"], "any": ["b"]})
    limits = [who.encoding_limits(model, fusion) for model in "abc"]
    assert not limits[0]
    assert [limit["intents"].value for limit in limits[1:]] == [
        [one for one in default_panels() if one != "qa"],
        ["qa"],
    ]
