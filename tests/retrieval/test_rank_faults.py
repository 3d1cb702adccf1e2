"""Vectors that nothing may be built on, and SIGKILL during the search."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, manifest_key
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
ROOT = Path(__file__).parents[2]


def stored(root: Path, n_parts: int, n_queries: int, n_passages: int) -> LocalStore:
    """Embeddings of passages, and of pairs in several parts."""
    store, chance = LocalStore(root), np.random.default_rng(0)
    vectors = chance.normal(size=(n_passages, 32)).astype(np.float32).tolist()
    put(
        store,
        PASSAGE_EMBEDDINGS,
        [{"passage_id": f"p{i:06d}", "doc_id": "d", "embedding": v} for i, v in enumerate(vectors)],
        dataset=f"embeddings/{MODEL}",
    )
    parts = [[pair(f"{part}-{i}", chance) for i in range(n_queries)] for part in range(n_parts)]
    put(store, PAIR_EMBEDDINGS, *parts, dataset=f"query_embeddings/{MODEL}")
    return store


def pair(name: str, chance: np.random.Generator, width: int = 32) -> dict:
    query, positive = chance.normal(size=(2, width)).astype(np.float32).tolist()
    return {
        "query_id": f"q{name}", "passage_id": "p000000", "doc_id": "d", "intent": "qa", "query_embedding": query,
        "positive_id": f"g{name}", "positive_embedding": positive,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("where", "bad", "message"),
    [
        ("passages", [float("nan")] + [1.0] * 31, "embeddings/.* the vector of p000003 holds NaN"),
        ("passages", [0.0] * 32, "embeddings/.* the vector of p000003 is zero"),
        ("passages", [1.0] * 16, "vectors of 16 to 32 numbers"),
        ("passages", None, "1 missing"),
        ("query", [float("inf")] + [1.0] * 31, "query_embedding: the vector of q0-3 holds NaN, infinity"),
        ("query", [0.0] * 32, "query_embedding: the vector of q0-3 is zero"),
        ("positive", [0.0] * 32, "the vector of g0-3 is zero"),
    ],
)
def test_nothing_is_built_on_a_broken_vector(tmp_path, where, bad, message):
    store, chance = stored(tmp_path, 1, 5, 10), np.random.default_rng(1)
    if where == "passages":
        given = rows(store, f"embeddings/{MODEL}")
        given[3]["embedding"] = bad
        put(store, PASSAGE_EMBEDDINGS, given, dataset=f"embeddings/{MODEL}")
    else:
        given = [pair(f"0-{i}", chance) for i in range(5)]
        given[3][f"{where}_embedding"] = bad
        put(store, PAIR_EMBEDDINGS, given, dataset=f"query_embeddings/{MODEL}")
    with pytest.raises(InputError, match=message):
        go(store, rank_passages, model=MODEL)
    assert not list(store.keys(f"versions/rankings/{MODEL}"))


def test_another_width_is_refused(tmp_path):
    store = stored(tmp_path, 1, 5, 10)
    put(store, PAIR_EMBEDDINGS, [pair("x", np.random.default_rng(1), 16)], dataset=f"query_embeddings/{MODEL}")
    with pytest.raises(InputError, match=r"vectors of \[16, 32\] numbers"):
        go(store, rank_passages, model=MODEL)


def test_vectors_of_other_weights_are_refused(tmp_path):
    store = stored(tmp_path, 1, 5, 10)
    old = put(store, PAIR_EMBEDDINGS, [pair("x", np.random.default_rng(1))], dataset=f"query_embeddings/{MODEL}")
    manifest = load_manifest(store, old)
    told = manifest.model_copy(update={"params": manifest.params | {"weights": "others"}})
    store.replace(manifest_key(old), told.model_dump_json().encode())
    with pytest.raises(InputError, match=rf"{old} has vectors of other weights of {MODEL} than run here: encode it"):
        go(store, rank_passages, model=MODEL)


def test_whoever_searches_exactly_makes_one_version_of_the_same_bytes(tmp_path):
    found = []
    for index in ("exact", "faiss", "torch"):
        store = stored(tmp_path / index, 2, 20, 500)
        outcome = go(store, rank_passages, model=MODEL, index=index, depth=30)
        found.append((outcome.ref, digests(store)))
    assert found[0] == found[1] == found[2]


def test_approximate_rankings_are_another_version_and_say_their_recall(tmp_path):
    store = stored(tmp_path, 1, 50, 2000)
    exact = go(store, rank_passages, model=MODEL, depth=30)
    rough = go(store, rank_passages, model=MODEL, depth=30, index="ivf", recall=0.8)
    assert exact.ref != rough.ref
    assert 0.8 <= rough.counters["recall_of_sample"] / rough.counters["sampled_queries"] <= 1


def digests(store: LocalStore) -> list[str]:
    folder = store.root / "versions" / "rankings" / MODEL
    return [file_sha256(path) for path in sorted(folder.glob("*.json"))]


RUN = """
import sys
from pathlib import Path
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.retrieval.rank_passages import rank_passages
from tests.stores import go
ranked = go(LocalStore(Path(sys.argv[1])), rank_passages, model=sys.argv[2], block_queries=60)
print(ranked.counters["partitions_reused"], flush=True)
"""


def start(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(root), MODEL]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_killed_during_the_search_it_resumes_with_the_next_block(tmp_path):
    killed, whole = stored(tmp_path / "killed", 12, 60, 4000), stored(tmp_path / "whole", 12, 60, 4000)
    process, deadline = start(killed.root), time.monotonic() + 120
    while len(list(killed.keys("memo"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = len(list(killed.keys("memo")))
    assert 2 <= done < 2 + 2 * 12 and not list(killed.keys(f"versions/rankings/{MODEL}"))
    again, fresh = start(killed.root), start(whole.root)
    assert int(again.communicate()[0]) >= done and int(fresh.communicate()[0]) == 0
    assert digests(killed) == digests(whole) != []
