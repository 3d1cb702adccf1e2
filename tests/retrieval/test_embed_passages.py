import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.paid.text_index import PREFIX
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.corpus.cluster_passages import cluster_passages
from pipeline_tasks.corpus.near_duplicate_passages import near_duplicate_passages
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.retrieval.embed_pairs import EmbedPairsParams, embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from tests.retrieval.endpoint import serving
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
CHILD = Path(__file__).with_name("embed_in_child.py")


def passages(part: int, n: int = 8) -> list[dict]:
    texts = (f"Part {part}, passage {i}: the river rose by {part * 7 + i} feet. " * 9 for i in range(n))
    return [{"passage_id": f"p{part}-{i}", "doc_id": "d", "text": text} for i, text in enumerate(texts)]


@pytest.fixture
def store(tmp_path, fetched):
    fetched(MODEL)
    return LocalStore(tmp_path / "store")


def test_passages_that_keep_the_parts_of_chunks_are_not_encoded_twice(store):
    twin = passages(0)[0] | {"passage_id": "twin"}
    put(store, PASSAGES, passages(0), [*passages(1, 3), twin], dataset="chunks")
    assert go(store, embed_passages, {"passages": ["chunks"]}, model=MODEL).counters["texts_encoded"] == 12
    go(store, cluster_passages, model=MODEL, threshold=0.9999)
    go(store, near_duplicate_passages)
    outcome = go(store, embed_passages, model=MODEL)
    assert (outcome.counters["parts_built"], outcome.counters["parts_reused"]) == (0, 2)
    assert "texts_encoded" not in outcome.counters
    left = [row["passage_id"] for row in rows(store, f"embeddings/{MODEL}")]
    assert left == [row["passage_id"] for row in rows(store, "passages")] and "twin" not in left


@pytest.mark.parametrize(("storage", "kept"), [("float16", True), ("float32", False)])
def test_half_precision_is_how_vectors_are_kept_and_part_of_the_version(store, storage, kept):
    put(store, PASSAGES, passages(0))
    made = go(store, embed_passages, model=MODEL, storage=storage)
    vectors = np.array([row["embedding"] for row in rows(store, f"embeddings/{MODEL}")], np.float32)
    assert (vectors == vectors.astype(np.float16)).all() == kept
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert Version.open(store, made.ref).manifest.params["storage"] == storage


def test_what_an_instructed_model_is_told_is_part_of_the_version_of_its_queries(monkeypatch):
    told = EmbedPairsParams(model="e5-mistral-7b-instruct").identity()["instructions"]
    assert set(told) == {"qa", "qadoc", "twitter", "factcheck", "nli", "sts"}
    assert "instructions" not in EmbedPairsParams(model=MODEL).identity()


def child(store: LocalStore, model: str, **variables: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(CHILD), str(store.root), model], env=os.environ | variables)


def test_killed_while_encoding_it_goes_on_with_the_parts_that_are_missing(store, tmp_path):
    parts = [passages(part) for part in range(12)]
    put(store, PASSAGES, *parts)
    process = child(store, MODEL)
    while len(list(store.keys("memo"))) < 2:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = len(list(store.keys("memo")))
    assert 2 <= done < 12 and not list(store.keys("versions/embeddings"))
    resumed = go(store, embed_passages, model=MODEL)
    assert resumed.counters["parts_reused"] == done
    assert resumed.counters["texts_encoded"] == 8 * (12 - done)
    calm = LocalStore(tmp_path / "calm")
    put(calm, PASSAGES, *parts)
    undisturbed = go(calm, embed_passages, model=MODEL)
    assert undisturbed.ref == resumed.ref
    assert Version.open(calm, undisturbed.ref).manifest == Version.open(store, resumed.ref).manifest


def test_killed_while_buying_it_buys_only_what_it_lacks(tmp_path, monkeypatch):
    model, store = "text-embedding-3-small", LocalStore(tmp_path)
    texts = [f"a text of its own {i}" for i in range(400)]
    put(store, PASSAGES, [{"passage_id": f"p{i}", "doc_id": "d", "text": text} for i, text in enumerate(texts)])
    with serving() as endpoint:
        endpoint.hold_after = 3
        process = child(store, model, FOUNDRY_EMBEDDINGS_BASE_URL=endpoint.url)
        assert endpoint.holding.wait(60)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = set(endpoint.sold)
        assert before and not list(store.keys("memo"))
        endpoint.hold_after = None
        endpoint.released.set()
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", endpoint.url)
        settings.cache_clear()
        counters = go(store, embed_passages, model=model).counters
        assert counters["vectors_reused"] == len(before)
        assert counters["vectors_bought"] == len(texts) - len(before)
        assert {endpoint.sold[text] for text in before} == {1} and set(endpoint.sold) == set(texts)
    settings.cache_clear()


class Watched(LocalStore):
    """Notes the keys that are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.reads.append(key)
        return super().read(key)


def test_what_a_process_bought_for_one_part_it_does_not_read_again_for_each_other(tmp_path, monkeypatch):
    store = Watched(tmp_path)
    put(store, PASSAGES, *(passages(part, 3) for part in range(12)))
    with serving() as endpoint:
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", endpoint.url)
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_PRICE", "free")
        settings.cache_clear()
        go(store, embed_passages, model="text-embedding-3-small")
    settings.cache_clear()
    assert len(list(store.keys(PREFIX))) == 12 and not [key for key in store.reads if key.startswith(PREFIX)]


def test_pairs_get_two_vectors_each_and_equal_texts_one(store):
    pair = {"passage_id": "p", "doc_id": "d", "intent": "qa", "query": "why", "positive": "because", "positive_id": "g"}
    put(store, PAIRS, [pair | {"query_id": "q1"}, pair | {"query_id": "q2"}], dataset="mtp")
    assert go(store, embed_pairs, model=MODEL).counters["texts_encoded"] == 4
    one, two = rows(store, f"query_embeddings/{MODEL}")
    assert one["query_embedding"] == two["query_embedding"] != one["positive_embedding"]
