from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def vectors(chance: np.random.Generator, n: int) -> list[list[float]]:
    """Small whole numbers: every inner product is exact in float32, and many are equal."""
    return chance.integers(-2, 3, (n, 8)).astype(float).tolist()


def stored(store: LocalStore, n_passages: int, n_queries: int) -> dict[str, list[float]]:
    """Embeddings of passages in shuffled order and in two parts, and of queries; returns the corpus by id."""
    chance = np.random.default_rng(n_passages)
    ids = chance.permutation([f"p{i:03d}" for i in range(n_passages)]).tolist()
    passages = [{"passage_id": i, "embedding": v} for i, v in zip(ids, vectors(chance, n_passages), strict=True)]
    put(
        store,
        PASSAGE_EMBEDDINGS,
        passages[: n_passages // 2],
        passages[n_passages // 2 :],
        dataset=f"embeddings/{MODEL}",
    )
    pairs = [
        {
            "query_id": f"q{i}",
            "passage_id": ids[i],
            "doc_id": "d",
            "intent": "qa",
            "query_embedding": query,
            "positive_id": f"{'o' if i % 2 else 'q'}{i:03d}",
            "positive_embedding": positive,
        }
        for i, (query, positive) in enumerate(zip(vectors(chance, n_queries), vectors(chance, n_queries), strict=True))
    ]
    put(store, PAIR_EMBEDDINGS, pairs, dataset=f"query_embeddings/{MODEL}")
    corpus = {row["passage_id"]: row["embedding"] for row in passages}
    return corpus | {row["positive_id"]: row["positive_embedding"] for row in pairs}


@pytest.mark.parametrize("depth", [1, 7, 60, 200])
@pytest.mark.parametrize("shard_passages", [30, 1000])
def test_agrees_with_float64_brute_force_and_breaks_ties_by_id(store, depth, shard_passages):
    corpus = stored(store, n_passages=60, n_queries=20)
    go(store, rank_passages, model=MODEL, depth=depth, shard_passages=shard_passages)
    queries = {row["query_id"]: row["query_embedding"] for row in rows(store, f"query_embeddings/{MODEL}")}
    ranked = rows(store, f"rankings/{MODEL}")
    assert [row["query_id"] for row in ranked] == list(queries)
    for row in ranked:
        scores = {i: float(np.dot(np.float64(v), np.float64(queries[row["query_id"]]))) for i, v in corpus.items()}
        expected = sorted(scores, key=lambda i: (-scores[i], i))[:depth]
        assert row["passage_ids"] == expected
        assert row["scores"] == [scores[i] for i in expected]
        assert len(row["passage_ids"]) == min(depth, 80)


def test_generated_positives_compete_with_the_passages(store):
    stored(store, n_passages=10, n_queries=4)
    go(store, rank_passages, model=MODEL)
    for row in rows(store, f"rankings/{MODEL}"):
        assert {"q000", "o001", "q002", "o003"} < set(row["passage_ids"])
        assert len(row["passage_ids"]) == len(set(row["passage_ids"])) == 14


def test_a_model_that_nobody_knows_is_refused(store):
    with pytest.raises(InputError, match="unknown model"):
        put(store, PAIR_EMBEDDINGS, [], dataset="query_embeddings/nobody")
        put(store, PASSAGE_EMBEDDINGS, [], dataset="embeddings/nobody")
        go(store, rank_passages, model="nobody")


TEXTS = {
    "surge": "A storm surge is a rise of the sea that a hurricane pushes ashore.",
    "shelter": "Go to a basement or a small inner room when a tornado comes.",
    "smoke": "Close the windows and run an air cleaner while wildfire smoke hangs over the town.",
}


def test_real_embeddings_put_each_querys_passage_first_and_a_refresh_encodes_what_is_new(store, fetched):
    fetched(MODEL)
    passages = [{"passage_id": name, "doc_id": name, "text": text} for name, text in TEXTS.items()]
    asked = {"surge": "why does the sea rise in a hurricane", "smoke": "how do I keep wildfire smoke out of my home"}
    pairs = [
        {"query_id": f"q-{name}", "passage_id": name, "doc_id": name, "intent": "qa", "query": query}
        | {"positive_id": f"g-{name}", "positive": TEXTS[name].upper()}
        for name, query in asked.items()
    ]
    put(store, PASSAGES, passages[:2])
    put(store, PAIRS, pairs, dataset="mtp")
    assert go(store, embed_passages, model=MODEL).counters["texts_encoded"] == 2
    put(store, PASSAGES, passages[:2], passages[2:])
    assert go(store, embed_passages, model=MODEL).counters["texts_encoded"] == 1
    assert go(store, embed_pairs, model=MODEL).counters["texts_encoded"] == 4
    for row in rows(store, f"embeddings/{MODEL}"):
        assert np.linalg.norm(row["embedding"]) == pytest.approx(1, abs=1e-5)
    go(store, rank_passages, model=MODEL)
    for row in rows(store, f"rankings/{MODEL}"):
        name = row["query_id"].removeprefix("q-")
        assert set(row["passage_ids"][:2]) == {name, f"g-{name}"}
        assert row["scores"] == sorted(row["scores"], reverse=True)
