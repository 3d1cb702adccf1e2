"""A small store made by hand: passages of three splits, a query for each of some, rankings of two models."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from tests.stores import put

SPLITS = {"train": ("t1", "t2", "t3", "t4", "t5"), "dev": ("d1", "d2", "d3"), "test": ("h1", "h2", "h3")}
SPLIT_OF = {passage: split for split, passages in SPLITS.items() for passage in passages}
QUERIED = ("t1", "t2", "t3", "t4", "d1", "d2", "h1")
RANKED = {
    "t1": "t1 t2 h1 G t3 d1 t4 t5 h2",
    "t2": "G t3 h2 t2 h1 t4 d2 t1 t5",
    "t3": "h3 t5 t3 t1 G t2 t4 d3 h1",
    "t4": "t4 h1 h2 h3 d1 d2 d3 G",
    "d1": "d1 d2 t1 h1 G d3 t2 t4 h2",
    "d2": "t2 t1 d1 G d2 d3 h1 t3 t4",
    "h1": "h1 t1 G h2 t2 d1 t3 t4 h3",
}
"""Passage that a query was written from -> ranking of both models; G is the query's own generated positive."""

SECOND = RANKED | {"d2": "d3 h3 d1 G t2 t1 d2 h1 t4"}
"""The second model agrees on all but one."""


def ranking(source: str, order: str) -> dict:
    ids = [f"g-{source}" if name == "G" else name for name in order.split()]
    scores = [0.9 - 0.05 * rank for rank in range(len(ids))]
    return {"query_id": f"q-{source}", "passage_id": source, "intent": "qa", "passage_ids": ids, "scores": scores}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """``passages``, ``mtp``, ``rankings/one`` and ``rankings/two``."""
    store = LocalStore(tmp_path)
    put(
        store,
        PASSAGES,
        [{"passage_id": p, "doc_id": p, "text": f"text of {p}", "split": s} for p, s in SPLIT_OF.items()],
    )
    pairs = [
        {
            "query_id": f"q-{source}",
            "passage_id": source,
            "doc_id": source,
            "intent": "qa",
            "query": f"about {source}?",
            "positive_id": f"g-{source}",
            "positive": f"text for {source}",
            "passage": f"text of {source}",
            "split": SPLIT_OF[source],
            "origin": "dm",
        }
        for source in QUERIED
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    for model, orders in (("one", RANKED), ("two", SECOND)):
        put(store, RANKINGS, [ranking(source, order) for source, order in orders.items()], dataset=f"rankings/{model}")
    return store
