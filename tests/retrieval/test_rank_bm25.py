"""BM25 and fused rankings in the place of a model's."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.fuse_rankings import fuse_rankings
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from tests.stores import go, put, rows

TEXTS = {
    "p1": "Floods rise when rivers leave their banks.",
    "p2": "A tornado is a rotating column of air.",
    "p3": "Store water before a hurricane; floods may follow.",
    "p4": "The committee met on Tuesday.",
}
QUERIES = {"q1": ("hurricane floods", "Hurricane floods come late.", "g1"), "q2": ("zyzzyva", "A small beetle.", "g2")}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    put(store, PASSAGES, [{"passage_id": name, "text": text, "split": "train"} for name, text in TEXTS.items()])
    pairs = [
        {"query_id": name, "query": query, "positive": positive, "positive_id": own, "passage_id": "p1", "intent": "qa"}
        for name, (query, positive, own) in QUERIES.items()
    ]
    put(store, PAIRS, *([pair] for pair in pairs), dataset="mtp")
    return store


def test_generated_positives_compete_and_their_score_is_kept_wherever_they_rank(store):
    go(store, rank_bm25, depth=3)
    first, second = rows(store, "rankings/bm25")
    assert first["passage_ids"] == ["g1", "p3", "p1"] and first["intent"] == "qa"
    ids = sorted([*TEXTS, "g1", "g2"])
    texts = [TEXTS.get(name) or QUERIES[f"q{name[1]}"][1] for name in ids]
    wanted = dict(zip(ids, Bm25(texts).scores("hurricane floods").tolist(), strict=True))
    assert first["scores"] == pytest.approx([wanted[name] for name in first["passage_ids"]])
    assert first["positive_score"] == pytest.approx(wanted["g1"])
    assert second["passage_ids"] == ["g1", "g2", "p1"] and second["scores"] == [0, 0, 0], "no word known: by id"


def test_fused_rankings_are_rankings_too(store):
    go(store, rank_bm25)
    orders = {"q1": ["p1", "p3", "p2"], "q2": ["p4", "g2"]}
    ranked = [{"query_id": name, "passage_ids": order, "scores": [0.5] * len(order)} for name, order in orders.items()]
    put(store, RANKINGS, ranked, dataset="rankings/one")
    go(store, fuse_rankings, models=("one", "bm25"), depth=4)
    first, second = rows(store, "rankings/rrf")
    assert first["passage_ids"][:2] == ["p1", "p3"]
    assert first["scores"][:2] == pytest.approx([1 / 61 + 1 / 63, 2 / 62], rel=1e-6)
    assert first["positive_score"] == pytest.approx(1 / 61)
    assert second["passage_ids"] == ["p4", "g2"], "no word known: nothing of BM25"
    assert second["positive_score"] == pytest.approx(1 / 62)
    assert len(first["passage_ids"]) == 4 and second["passage_id"] == "p1"


def test_rankings_of_other_pairs_are_refused(store):
    go(store, rank_bm25)
    put(store, RANKINGS, [{"query_id": "q2", "passage_ids": ["p1"], "scores": [0.5]}], dataset="rankings/one")
    with pytest.raises(InputError, match=r"rankings/one@\w+ is not of mtp@"):
        go(store, fuse_rankings, models=("bm25", "one"))
    with pytest.raises(InputError, match="two"):
        go(store, fuse_rankings, {"rankings": ["rankings/bm25"]}, models=("bm25", "two"))


def test_how_words_count_is_chosen_and_is_part_of_the_version(store):
    first = go(store, rank_bm25, depth=3)
    other = go(store, rank_bm25, depth=3, k1=1.2, b=0)
    assert first.ref != other.ref
    ids = sorted([*TEXTS, "g1", "g2"])
    texts = [TEXTS.get(name) or QUERIES[f"q{name[1]}"][1] for name in ids]
    wanted = sorted(Bm25(texts, 1.2, 0).scores("hurricane floods").tolist(), reverse=True)[:3]
    assert rows(store, "rankings/bm25")[0]["scores"] == pytest.approx(wanted)
    short, long = Bm25(["a flood", "a flood and many other words"], b=0).scores("flood")
    assert short == long, "without b the long passage is no worse"
