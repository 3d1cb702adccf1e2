"""BM25 by shards gives what one index over the whole corpus gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.rank_bm25 import rank_bm25
from pipeline_tasks.texts import words
from tests.stores import go, put, rows

CHANCE = np.random.default_rng(7)
WORDS = [letter + "x" for letter in "abcdefghijklmnopqrst"] + ["überschwemmung", "水位上升"]
DEPTH = 12


def text(n: int) -> str:
    return " ".join(CHANCE.choice(WORDS, n))


PASSAGE_ROWS = [{"passage_id": f"p{n:02}", "text": text(n % 7), "split": "train"} for n in range(60)]
PAIR_ROWS = [
    {"query_id": f"q{n}", "query": text(n % 4), "passage_id": "p00", "doc_id": "d", "intent": "qa"}
    # Every third positive has the id of a passage, or of another positive, and another text.
    | {"positive_id": f"p{n:02}" if n % 3 == 0 else f"g{n // 2:02}", "positive": text(5)}
    for n in range(30)
]
SMALL = {"shard_passages": 9, "block_queries": 15}


MIXED = [row | ({"passage_id": None, "origin": "gd/a"} if n % 4 == 0 else {}) for n, row in enumerate(PAIR_ROWS)]
"""Every fourth query is of a corpus of its own."""


def planted(folder: Path, passages: list[dict] = PASSAGE_ROWS, pairs: list[dict] = PAIR_ROWS) -> LocalStore:
    store = LocalStore(folder)
    put(store, PASSAGES, *(passages[at : at + 9] for at in range(0, len(passages), 9)), [])
    put(store, PAIRS, pairs[:5], [], *(pairs[at : at + 7] for at in range(5, 30, 7)), dataset="mtp")
    return store


def manifest(store: LocalStore) -> bytes:
    return Version.open(store, Ref.parse("rankings/bm25")).manifest.to_bytes()


def test_shards_and_blocks_have_no_say_in_any_byte(tmp_path):
    one, many = (planted(tmp_path / name, pairs=MIXED) for name in ("one", "many"))
    assert go(one, rank_bm25, depth=DEPTH).counters["partitions_built"] == 2 * 8 + 1, (
        "a shard of passages and one of positives, one block, two corpora"
    )
    assert go(many, rank_bm25, depth=DEPTH, **SMALL).counters["partitions_built"] > 30
    assert manifest(many) == manifest(one)


def test_every_ranking_is_that_of_one_index_over_the_first_text_of_each_id(tmp_path):
    store = planted(tmp_path)
    go(store, rank_bm25, depth=DEPTH, **SMALL)
    texts = {row["passage_id"]: row["text"] for row in PASSAGE_ROWS}
    for row in PAIR_ROWS:
        texts.setdefault(row["positive_id"], row["positive"])
    ids = sorted(texts)
    own = np.array([ids.index(row["positive_id"]) for row in PAIR_ROWS])
    found = Bm25([texts[name] for name in ids]).search([row["query"] for row in PAIR_ROWS], DEPTH, own)
    ranked = rows(store, "rankings/bm25")
    assert [row["query_id"] for row in ranked] == [row["query_id"] for row in PAIR_ROWS]
    assert [row["passage_ids"] for row in ranked] == [[ids[i] for i in best] for best in found.indices]
    assert np.array([row["scores"] for row in ranked], np.float32).tobytes() == found.scores.tobytes()
    assert [row["positive_score"] for row in ranked] == found.own_scores.tolist()


def test_a_refresh_counts_the_words_of_new_shards_alone(tmp_path):
    store = planted(tmp_path, PASSAGE_ROWS[:45])
    go(store, rank_bm25, depth=DEPTH, **SMALL)
    grown = planted(tmp_path)
    assert go(grown, rank_bm25, depth=DEPTH, **SMALL).counters["partitions_reused"] >= 2 * 4
    fresh = planted(tmp_path / "fresh")
    go(fresh, rank_bm25, depth=DEPTH, **SMALL)
    assert manifest(grown) == manifest(fresh)


def test_words_of_another_library_are_counted_anew(tmp_path, monkeypatch):
    store = planted(tmp_path)
    first = go(store, rank_bm25, depth=DEPTH, **SMALL)
    monkeypatch.setattr(words, "versions_of", lambda *names: dict.fromkeys(names, "another"))
    again = go(store, rank_bm25, depth=DEPTH, **SMALL)
    assert again.ref != first.ref and again.counters["partitions_built"] > again.counters["partitions_reused"]


def test_queries_over_no_passages_are_refused_and_no_queries_have_no_rankings(tmp_path):
    store = LocalStore(tmp_path)
    put(store, PASSAGES, [])
    put(store, PAIRS, [], dataset="mtp")
    assert go(store, rank_bm25).counters["rows_out"] == 0
    put(store, PAIRS, PAIR_ROWS[:2], dataset="other")
    with pytest.raises(InputError, match="BM25 over no passages"):
        go(store, rank_bm25, {"pairs": ["other"]})
