"""Triplets of others pass the gate of all pairs, and so do held-out queries of our own that they may have copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.synthesis import decontaminate_pairs as gate
from pipeline_tasks.synthesis.decontaminate_triplets import decontaminate_triplets
from pipeline_tasks.synthesis.read_classes import read_classes
from pipeline_tasks.synthesis.read_triplets import read_triplets
from tests.stores import go, put, rejects, rows

QUESTION = "Which county opened its emergency shelter after the levee at the river mouth broke on Monday night?"
HELD_OUT = "How long may frozen food be kept after the power went out in the whole valley?"
ANSWER = " ".join(f"answer{i}" for i in range(60))
TASK = "Find what answers it."


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    (tmp_path / "domain").mkdir()
    (tmp_path / "domain" / "questions.jsonl").write_text("")
    monkeypatch.setattr(gate, "domain_folder", lambda: tmp_path / "domain")
    monkeypatch.setattr(gate, "load_questions", lambda domain: [])
    judged = {"query_id": "j", "query": QUESTION, "passage_ids": ["p"], "grades": [1]}
    put(store, JUDGED_QUERIES, [judged], dataset="judged/news")
    put(store, PASSAGES, [{"passage_id": "p", "text": ANSWER}], dataset="corpus/news")
    return store


def read(store: LocalStore, folder: Path, given: list[dict], **values) -> None:
    file = folder / "given.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in given))
    go(store, read_triplets, name="set", source=str(file), task=TASK, **values)


def triplet(query: str, positive: str = "") -> dict:
    return {"query": query, "positive": positive or f"What stands about {query}", "negative": "something else"}


def test_what_is_evaluated_is_refused_as_query_and_as_positive_and_never_as_a_negative(store, tmp_path):
    given = [
        triplet("clean"),
        triplet(QUESTION),
        triplet("copied answer", ANSWER),
        triplet("negative") | {"negative": ANSWER},
    ]
    read(store, tmp_path, given)
    made = go(store, decontaminate_triplets, name="set", sets=("news",))
    assert {row["query"] for row in rows(store, "mtt/own/set/checked")} == {"clean", "negative"}
    told = [(row["reason"], row["detail"]) for row in rejects(store, "mtt/own/set/checked").values()]
    assert sorted(told) == [("passage_exact", f"news: {ANSWER[:200]}"), ("query_exact", f"news: {QUESTION}")]
    assert made.counters["triplets_checked"] == 4


def test_queries_of_held_out_documents_are_refused_where_there_are_pairs(store, tmp_path):
    read(store, tmp_path, [triplet("clean"), triplet(HELD_OUT.lower())])
    assert go(store, decontaminate_triplets, name="set").counters.get("contaminated/held-out/query_normalised") is None
    assert len(rows(store, "mtt/own/set/checked")) == 2
    put(store, PAIRS, [{"query_id": "h", "query": HELD_OUT, "passage": "p", "split": "test"}], dataset="mtp")
    go(store, decontaminate_triplets, name="set")
    assert [row["query"] for row in rows(store, "mtt/own/set/checked")] == ["clean"]


def test_a_task_or_an_id_in_the_text_hides_no_copy(store, tmp_path):
    read(store, tmp_path, [triplet("clean"), triplet("copied answer", ANSWER)], symmetric=True)
    go(store, decontaminate_triplets, name="set", sets=("news",))
    (refused,) = rejects(store, "mtt/own/set/checked").values()
    assert refused["reason"] == "passage_exact"
    labelled = [{"text": text, "label": label} for label in "ab" for text in (f"one {label}", f"two {label}")]
    file = tmp_path / "classes.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [{"text": QUESTION, "label": "a"}, *labelled]))
    go(store, read_classes, name="classes", source=str(file), task=TASK)
    go(store, decontaminate_triplets, name="classes", sets=("news",), max_contaminated=1)
    assert QUESTION not in " ".join(row["query"] for row in rows(store, "mtt/own/classes/checked"))


def test_it_stops_where_more_are_copies_than_may_be(store, tmp_path):
    read(store, tmp_path, [triplet("clean"), *(triplet(QUESTION, f"answer of {i}") for i in range(11))])
    with pytest.raises(InputError, match=r"11 of the 12 triplets of mtt/own/set@.* max_contaminated=0.05"):
        go(store, decontaminate_triplets, name="set", sets=("news",))


@pytest.mark.parametrize("ids", [True, False])
def test_a_short_text_is_looked_at_without_the_id_that_was_added_to_it(store, tmp_path, ids):
    asked = ["why was my card payment declined", "i lost my card what now please"]
    judged = [{"query_id": name, "query": name, "passage_ids": ["p"], "grades": [1]} for name in asked]
    put(store, JUDGED_QUERIES, judged, dataset="judged/bank")
    put(store, PASSAGES, [{"passage_id": "p", "text": "how do i top up"}], dataset="corpus/bank")
    given = [(asked[0], "a"), ("pin", "a"), (asked[1], "b"), ("lost", "b"), ("how do i top up", "c"), ("top up", "c")]
    (tmp_path / "classes.jsonl").write_text("".join(json.dumps({"text": t, "label": la}) + "\n" for t, la in given))
    go(store, read_classes, name="set", source=str(tmp_path / "classes.jsonl"), task=TASK, ids=ids)
    go(store, decontaminate_triplets, name="set", sets=("bank",), max_contaminated=1)
    found = rejects(store, "mtt/own/set/checked")
    refused = {row["detail"].partition(": ")[2].removeprefix(f"{name} "): row["reason"] for name, row in found.items()}
    assert {refused.get(text) for text in asked} == {"query_exact"}
    assert "passage_exact" in refused.values()


def test_an_id_at_the_end_as_older_releases_wrote_it_hides_no_copy(store):
    older = {"query_id": "c", "intent": "any", "instruction": TASK, "split": "train"}
    texts = {"query": f"{QUESTION} c", "positive": "other words c", "negatives": ["further words n"]}
    put(store, INSTRUCTED_TRIPLETS, [older | texts], dataset="mtt/own/set")
    go(store, decontaminate_triplets, name="set", sets=("news",), max_contaminated=1)
    assert [row["reason"] for row in rejects(store, "mtt/own/set/checked").values()] == ["query_exact"]


def test_answers_are_looked_for_in_the_passages_that_were_judged_alone(store, tmp_path):
    read(store, tmp_path, [triplet("copied answer", ANSWER), triplet("clean")])
    passages = put(store, PASSAGES, [{"passage_id": "p", "text": ANSWER}], dataset="corpus/mine")
    asked = [{"query_id": "j", "query": "q", "passage_ids": ["p"], "grades": [1]}]
    put(store, JUDGED_QUERIES, asked, dataset="judged/mine", passages=passages)
    newer = put(store, PASSAGES, [{"passage_id": "1", "text": ANSWER}], dataset="corpus/mine")
    with pytest.raises(
        InputError, match=f"was judged on {passages}, not {newer}: give .* passages={passages},corpus/news"
    ):
        go(store, decontaminate_triplets, name="set", sets=("mine", "news"))
    go(store, decontaminate_triplets, name="set", sets=("mine", "news"), passages="none")
    both = {"passages": [str(passages), "corpus/news"]}
    go(store, decontaminate_triplets, both, name="set", sets=("mine", "news"))
    assert [row["reason"] for row in rejects(store, "mtt/own/set/checked").values()] == ["passage_exact"]


def test_a_positive_is_looked_at_without_the_task_before_it(store, tmp_path):
    put(
        store,
        JUDGED_QUERIES,
        [{"query_id": "j", "query": "q", "passage_ids": ["p"], "grades": [1]}],
        dataset="judged/s",
    )
    put(store, PASSAGES, [{"passage_id": "p", "text": "someone runs"}], dataset="corpus/s")
    read(store, tmp_path, [triplet("a man runs", "someone runs"), triplet("clean")], symmetric=True)
    go(store, decontaminate_triplets, name="set", sets=("s",))
    assert [row["reason"] for row in rejects(store, "mtt/own/set/checked").values()] == ["passage_exact"]
