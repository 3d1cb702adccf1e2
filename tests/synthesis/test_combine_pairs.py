from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from tests.stores import go, put, rejects, rows


def pair(name: str, query: str, origin: str = "dm", intent: str = "qa") -> dict:
    return {"query_id": name, "query": query, "intent": intent, "origin": origin}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    mine = [pair("b", "Where is  the shelter?"), pair("a", "where is the\tshelter? "), pair("c", "x", intent="sts")]
    put(store, PAIRS, mine, dataset="mtp/dm")
    return store


def kept(store: LocalStore) -> list[str]:
    return [row["query_id"] for row in rows(store, "mtp/combined")]


def test_the_first_of_queries_with_the_same_words_stays(store):
    put(store, PAIRS, [pair("d", "WHERE is the shelter?", "gd"), pair("e", "X", "gd", "nli")], dataset="mtp/gd")
    outcome = go(store, combine_pairs)
    assert kept(store) == ["b", "c", "e"]
    refused = rejects(store, "mtp/combined")
    assert {name: row["reason"] for name, row in refused.items()} == dict.fromkeys("ad", "duplicate_query")
    assert refused["d"]["detail"] == "of b: WHERE is the shelter?"
    assert outcome.counters["pairs_read/dm/qa"] == 2 and outcome.counters["pairs_kept/dm/qa"] == 1
    assert outcome.counters["pairs_kept/gd/nli"] == 1 and "pairs_kept/gd/qa" not in outcome.counters


def test_general_pairs_may_be_missing(store):
    go(store, combine_pairs)
    assert kept(store) == ["b", "c"]


def test_a_cap_takes_a_sample_that_a_refresh_hardly_changes(store):
    many = [pair(f"g{i:03}", f"question {i}", "gd/one") for i in range(100)]
    few = [pair(f"h{i}", f"other {i}", "gd/two") for i in range(5)]
    put(store, PAIRS, many, few, dataset="mtp/gd")
    go(store, combine_pairs, caps={"gd/one": 40, "gd/two": 40})
    before = set(kept(store))
    assert (len(before), sum(name.startswith("g") for name in before)) == (2 + 40 + 5, 40)
    assert sum(row["reason"] == "over_cap" for row in rejects(store, "mtp/combined").values()) == 60
    put(store, PAIRS, many[:95], few, [pair("i", "new", "gd/one")], dataset="mtp/gd")
    go(store, combine_pairs, caps={"gd/one": 40, "gd/two": 40})
    assert len(before ^ set(kept(store))) <= 2 * 6
