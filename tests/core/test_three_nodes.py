"""Partitioned steps on a real Ray cluster that loses a node in the middle of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import resolve_name
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.cluster_passages import cluster_passages
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import DOCUMENTS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from pipeline_tasks.retrieval.rank_passages import rank_passages
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from tests.core.ray_cluster import on_ray, several_nodes, use_this_machine
from tests.core.toy_steps import check_whole, make
from tests.corpus.near_duplicates import planted as similar
from tests.corpus.vectors import planted as near_duplicates
from tests.retrieval.test_vector_shards import MODEL, SMALL, planted
from tests.stores import put

pytestmark = on_ray
N = 48
FAR = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove")
ENCODER = "bge-small-en-v1.5"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nodes of which two outlive all steps."""
    with several_nodes(len(STEPS) + 2, monkeypatch) as found:
        yield found


@contextmanager
def one_dies(cluster: Any, store: LocalStore, dataset: str) -> Iterator[list[bool]]:
    """A node of the cluster is killed once the block has stored its second piece; yields if that was in time."""
    before, ended, early = n_pieces(store), threading.Event(), list[bool]()

    def kill() -> None:
        while not ended.is_set():
            if n_pieces(store) >= before + 2:
                cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
                early.append(resolve_name(store, dataset) is None)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield early
    finally:
        ended.set()
        killer.join()


def n_pieces(store: LocalStore) -> int:
    return sum(1 for _ in store.keys("memo"))


def texts(folder: Path) -> LocalStore:
    store = planted(folder)
    each = [
        {"passage_id": f"p{n:02}", "text": f"flood {FAR[n % 7]} river {FAR[n % 5]}", "split": "train"} for n in range(N)
    ]
    put(store, PASSAGES, *(each[at : at + 6] for at in range(0, N, 6)))
    vectors = near_duplicates(N // 2, seed=1)[:N]
    rows = [{"passage_id": f"p{n:02}", "embedding": vector.tolist()} for n, vector in enumerate(vectors)]
    put(store, PASSAGE_EMBEDDINGS, *(rows[at : at + 6] for at in range(0, N, 6)), dataset=f"embeddings/{ENCODER}")
    asked = {"split": "train", "origin": "dm", "intent": "qa"}
    pairs = [
        asked | {"query_id": f"q{n:02}", "passage_id": f"p{n:02}", "query": f"river {FAR[n % 5]} flood {FAR[n % 7]}"}
        for n in range(N)
    ]
    put(
        store,
        PAIRS,
        [pair | {"positive_id": f"g-{pair['query_id']}", "positive": "ice"} for pair in pairs],
        dataset="mtp",
    )
    put(store, PAIRS, *(pairs[at : at + 6] for at in range(0, N, 6)), dataset="mtp/dm")
    alike = [{"doc_id": f"d{n:02}", "text": text} for n, text in enumerate(similar()[:N])]
    put(store, DOCUMENTS, *(alike[at : at + 6] for at in range(0, N, 6)), dataset="texts")
    make(store, sketch_documents)
    return store


BLOCKS = {"models": ("bm25",), "shard_passages": 6, "block_queries": 6}
STEPS = (
    (rank_bm25, {"depth": 5, "shard_passages": 6}),
    (mutual_agreement, {"strategy": "mutual"} | BLOCKS),
    (mine_negatives, {"alpha": 0.95} | BLOCKS),
    (rank_passages, {"model": MODEL} | SMALL),
    (cluster_passages, {"model": ENCODER, "block_passages": 6}),
    (cluster_documents, {"threshold": 0.45, "block_mib": 0.02}),
    (combine_pairs, {"block_pairs": 6}),
)


def test_a_node_that_dies_in_the_middle_of_a_step_changes_no_byte(cluster, tmp_path, monkeypatch):
    store = texts(tmp_path / "ray")
    for made, params in STEPS:
        with one_dies(cluster, store, made.output(made.parse(params))) as early:
            make(store, made, **params)
        assert early == [True], f"{made.name} was done before a node died"
    use_this_machine(monkeypatch)
    here = texts(tmp_path / "local")
    for made, params in STEPS:
        make(here, made, **params)
    assert check_whole(store) == check_whole(here)
