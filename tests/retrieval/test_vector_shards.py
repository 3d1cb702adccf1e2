"""Search by vectors in shards gives what a search of the whole corpus gives, and holds a shard at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS
from pipeline_tasks.retrieval import faiss_search, vector_shards
from pipeline_tasks.retrieval.rank_passages import RankPassagesParams, rank_passages
from tests.stores import go, put, rows

MODEL, PART, N_PARTS = "all-minilm-l6-v2", 10, 6
SMALL = {"shard_passages": 2 * PART, "block_queries": 8}


def vectors(n: int, seed: int) -> list[list[float]]:
    return (np.random.default_rng(seed).integers(-2, 3, (n, 8)) + 0.25).astype(np.float32).tolist()


def planted(folder: Path) -> LocalStore:
    """Queries of two corpora; every sixth passage has the id of one before, and every third positive of a passage."""
    store, n = LocalStore(folder), PART * N_PARTS
    passages = [
        {"passage_id": f"p{number - 30 * (number % 6 == 5 and number > 30):02}", "doc_id": "d", "embedding": vector}
        for number, vector in enumerate(vectors(n, 1))
    ]
    given = zip(vectors(24, 2), vectors(24, 3), strict=True)
    pairs = [
        {"query_id": f"q{n}", "doc_id": "d", "intent": "qa", "query_embedding": query, "positive_embedding": positive}
        | {"positive_id": f"p{n:02}" if n % 3 == 0 else f"g{n:02}"}
        | ({"passage_id": "", "origin": "gd/a"} if n % 4 == 0 else {"passage_id": "p00"})
        for n, (query, positive) in enumerate(given)
    ]
    parts = [passages[at : at + PART] for at in range(0, n, PART)]
    put(store, PASSAGE_EMBEDDINGS, *parts, [], dataset=f"embeddings/{MODEL}")
    put(store, PAIR_EMBEDDINGS, pairs[:8], [], pairs[8:], dataset=f"query_embeddings/{MODEL}")
    return store


def manifest(store: LocalStore) -> bytes:
    return Version.open(store, Ref.parse(f"rankings/{MODEL}")).manifest.to_bytes()


def test_shards_and_blocks_have_no_say_in_any_byte_and_a_process_holds_one_shard(tmp_path):
    one, many = (planted(tmp_path / name) for name in ("one", "many"))
    assert go(one, rank_passages, model=MODEL).counters["partitions_built"] == 2 * 4 + 3, "two shards, one block"
    assert go(many, rank_passages, model=MODEL, **SMALL).counters["partitions_built"] > 20
    assert manifest(many) == manifest(one)
    (held,) = vector_shards._IN_MEMORY.values()
    assert len(held.vectors) <= SMALL["shard_passages"]


@pytest.mark.parametrize("index", ["faiss", "ivf", "hnsw"])
def test_an_index_is_built_once_for_all_blocks_of_queries(tmp_path, monkeypatch, index):
    build, n_built = faiss_search.build_index, []
    monkeypatch.setattr(faiss_search, "build_index", lambda *given: n_built.append(index) or build(*given))
    exact, by_index = (planted(tmp_path / name) for name in ("exact", "index"))
    go(exact, rank_passages, model=MODEL, depth=5)
    go(by_index, rank_passages, model=MODEL, depth=5, index=index, recall=1, **SMALL)
    assert rows(by_index, f"rankings/{MODEL}") == rows(exact, f"rankings/{MODEL}")
    assert len(n_built) == 5 + 2, "shards of the domain and of gd/a; there are two blocks"


def test_of_an_id_that_comes_twice_the_first_vector_is_searched_and_none_twice(tmp_path):
    store = planted(tmp_path)
    go(store, rank_passages, model=MODEL, depth=100, **SMALL)
    first: dict[str, list[float]] = {}
    for row in rows(store, f"embeddings/{MODEL}"):
        first.setdefault(row["passage_id"], row["embedding"])
    pairs = {row["query_id"]: row for row in rows(store, f"query_embeddings/{MODEL}")}
    for row in rows(store, f"rankings/{MODEL}"):
        corpus = {} if pairs[row["query_id"]]["origin"] else dict(first)
        for pair in pairs.values():
            if pair["origin"] == pairs[row["query_id"]]["origin"]:
                corpus.setdefault(pair["positive_id"], pair["positive_embedding"])
        query = np.float64(pairs[row["query_id"]]["query_embedding"])
        scores = {name: np.float32(query @ np.float64(vector)) for name, vector in corpus.items()}
        assert row["passage_ids"] == sorted(scores, key=lambda name: (-scores[name], name))
        assert row["positive_score"] == np.float32(query @ np.float64(pairs[row["query_id"]]["positive_embedding"]))


def test_sizes_are_of_no_version_but_where_the_search_is_approximate():
    exact, rough = ({"model": MODEL, "index": index} for index in ("exact", "ivf"))
    ids = [RankPassagesParams(**way, **sizes).identity() for way in (exact, rough) for sizes in ({}, SMALL)]
    assert ids[0] == ids[1] and ids[2] != ids[3]


def test_queries_over_no_passages_are_refused(tmp_path):
    store = planted(tmp_path)
    put(store, PASSAGE_EMBEDDINGS, [], dataset=f"embeddings/{MODEL}")
    put(store, PAIR_EMBEDDINGS, [], dataset="none")
    with pytest.raises(InputError, match="no vectors of passages of the corpus domain"):
        go(store, rank_passages, {"positives": ["none"]}, model=MODEL)
