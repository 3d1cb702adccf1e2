"""What a query is compared with: the nearest passages of its split, by query and task together."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.nearest_passages import nearest_passages
from pipeline_tasks.retrieval.open_encoder import open_encoder
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
TEXTS = {
    "a": "Sandbags keep the river out of the town.",
    "b": "The river rose by two metres in the night.",
    "c": "Smoke from the fire filled the valley.",
    "d": "The shelter takes dogs and cats as well.",
    "e": "A tornado took the roof off the school.",
}
SPLITS = {"a": "train", "b": "train", "c": "train", "d": "dev", "e": "dev"}
TASK = "Given keywords, find what burns"


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> LocalStore:
    return planted(LocalStore(tmp_path_factory.mktemp("store")))


def planted(store: LocalStore, *more: dict) -> LocalStore:
    """Five passages and ``more``, embedded; two queries of the split train, one with a task, and one of dev."""
    known = [{"passage_id": i, "doc_id": i, "text": text, "split": SPLITS[i]} for i, text in TEXTS.items()]
    put(store, PASSAGES, known[:2], [*known[2:], *more])
    go(store, embed_passages, model=MODEL)
    queries = [("q1", "c", "river flood", TASK), ("q2", "a", "river flood", None), ("q3", "e", "pets", None)]
    pairs = [
        {"query_id": name, "passage_id": seed, "doc_id": seed, "intent": "any", "query": query, "instruction": task}
        | {"positive_id": seed, "positive": TEXTS[seed], "split": SPLITS[seed]}
        for name, seed, query, task in queries
    ]
    put(store, INSTRUCTED_PAIRS, pairs, dataset="mtp/fret/checked")
    return store


def test_the_nearest_of_its_own_split_to_query_and_task(store):
    go(store, nearest_passages, model=MODEL, depth=2)
    found = {row["query_id"]: row for row in rows(store, f"nearest/{MODEL}")}
    encoder = open_encoder(MODEL)
    vectors = dict(zip(TEXTS, encoder.encode_passages(list(TEXTS.values())), strict=True))
    asked = {"q1": f"{TASK}: river flood", "q2": "river flood", "q3": "pets"}
    for name, text in asked.items():
        row, query = found[name], encoder.encode([text])[0]
        cosines = {i: float(query @ v) for i, v in vectors.items() if SPLITS[i] == SPLITS[row["passage_id"]]}
        assert row["passage_ids"] == sorted(cosines, key=lambda i: -cosines[i])[:2]
        np.testing.assert_allclose(row["scores"], sorted(cosines.values(), reverse=True)[:2], atol=1e-6)
        assert row["positive_score"] == pytest.approx(cosines[row["passage_id"]], abs=1e-6)
    assert "c" in found["q1"]["passage_ids"] and "c" not in found["q2"]["passage_ids"], "the task has no say"


def test_a_split_with_fewer_passages_gives_a_shorter_list(store):
    go(store, nearest_passages, model=MODEL, depth=20)
    assert {row["query_id"]: len(row["passage_ids"]) for row in rows(store, f"nearest/{MODEL}")} == {
        "q1": 3,
        "q2": 3,
        "q3": 2,
    }


def test_vectors_of_other_passages_are_the_callers_mistake(store):
    other = put(store, PASSAGE_EMBEDDINGS, [{"passage_id": "x", "embedding": [1.0] * 384}], dataset="embeddings/other")
    with pytest.raises(InputError, match="has a vector of x, which is not in passages@"):
        go(store, nearest_passages, {"embeddings": [str(other)]}, model=MODEL)


def test_queries_are_encoded_once_for_all_versions_of_the_corpus(tmp_path):
    def made(folder, *more, **values):
        store = planted(LocalStore(tmp_path / folder), *more)
        outcome = go(store, nearest_passages, model=MODEL, **values)
        return outcome.counters["texts_encoded"], load_manifest(store, outcome.ref)

    flood = {"passage_id": "f", "doc_id": "f", "text": "A flood of the river.", "split": "train"}
    assert made("store", depth=2)[0] == 3
    for values, n_texts in (({"depth": 2}, 0), ({"depth": 3}, 0), ({"depth": 3, "precision": "float16"}, 3)):
        _, fresh = made("fresh" + "-".join(map(str, values.values())), flood, **values)
        assert made("store", flood, **values) == (n_texts, fresh)
