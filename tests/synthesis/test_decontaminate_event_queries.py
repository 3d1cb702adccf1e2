"""Queries about events pass the gate of all pairs: what models are evaluated with is refused, and named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.synthesis import decontaminate_pairs as gate
from pipeline_tasks.synthesis.decontaminate_event_queries import decontaminate_event_queries
from tests.stores import go, put, rejects, rows

QUESTION = "Which county opened its emergency shelter after the levee at the river mouth broke on Monday night?"
ANSWER = " ".join(f"answer{i}" for i in range(60))
CHECKED = "mtp/events/checked"


def pair(name: str, query: str = "", passage: str = "") -> dict:
    passage = passage or " ".join(f"{name}{i}" for i in range(30))
    texts = {"query": query or f"What happened in {name}?", "positive": passage, "passage": passage}
    return {"query_id": name, "split": "train", "origin": "event", "need_id": f"event-{name}"} | texts


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    domain = tmp_path / "domain"
    domain.mkdir()
    asked = {"query": "Who closed the bridge?", "intent": "qa", "document": "d"}
    judgements = [{"grade": 1, "evidence": "the bridge is closed"}]
    (domain / "questions.jsonl").write_text(json.dumps(asked | {"judgements": judgements}) + "\n")
    monkeypatch.setattr(gate, "domain_folder", lambda: domain)
    judged = {"query_id": "j", "query": QUESTION, "passage_ids": ["p"], "grades": [1]}
    put(store, JUDGED_QUERIES, [judged], dataset="judged/news")
    put(store, PASSAGES, [{"passage_id": "p", "text": ANSWER}], dataset="corpus/news")
    return store


def test_copies_are_refused_by_kind_and_set_and_the_rest_is_the_part_that_was_written(store):
    words = QUESTION.split()
    given = [
        pair("clean"),
        pair("exact", QUESTION),
        pair("same", QUESTION.upper()),
        pair("run", "Tell me: " + " ".join(words[:13])),
        pair("near", " ".join(reversed(words))),
        pair("asked", "who closed the bridge"),
        pair("answers", passage=ANSWER),
    ]
    written = put(store, PAIRS, given, dataset="mtp/events")
    made = go(store, decontaminate_event_queries, sets=("news",), max_contaminated=1)
    assert [(row["query_id"], row["need_id"]) for row in rows(store, CHECKED)] == [("clean", "event-clean")]
    refused = rejects(store, CHECKED)
    assert {name: (row["reason"], row["detail"].partition(": ")[0]) for name, row in refused.items()} == {
        "exact": ("query_exact", "news"),
        "same": ("query_normalised", "news"),
        "run": ("query_13gram", "news"),
        "near": ("query_near", "news"),
        "asked": ("query_normalised", "questions"),
        "answers": ("passage_exact", "news"),
    }
    assert load_manifest(store, made.ref).parts == load_manifest(store, written).parts


def test_a_copy_of_a_query_that_is_held_out_here_or_in_mtp_is_refused_and_held_out_pairs_stay(store):
    held_out = pair("here", "Which valley floods first?") | {"split": "test"}
    copies = pair("a", "which valley floods first"), pair("b", "Who leads the rescue?"), pair("c", "Who repairs roads?")
    put(store, PAIRS, [pair("clean"), held_out, *copies], dataset="mtp/events")
    scored_on = pair("there", "who leads the rescue") | {"split": "test"}
    put(store, PAIRS, [scored_on, pair("trained", "Who repairs roads?")], dataset="mtp")
    go(store, decontaminate_event_queries, max_contaminated=1)
    assert {row["query_id"] for row in rows(store, CHECKED)} == {"clean", "here", "c"}
    assert {name: row["reason"] for name, row in rejects(store, CHECKED).items()} == dict.fromkeys(
        "ab", "query_normalised"
    )


def test_it_stops_where_more_are_copies_than_may_be(store):
    put(store, PAIRS, [pair("clean"), *(pair(f"copy{i}", QUESTION) for i in range(11))], dataset="mtp/events")
    with pytest.raises(
        InputError, match=r"11 of the 12 pairs of mtp/events.* max_contaminated=0.05 .*news/query_exact"
    ):
        go(store, decontaminate_event_queries, sets=("news",))
