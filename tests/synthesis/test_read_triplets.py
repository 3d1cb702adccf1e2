"""Triplets of others' sets are rows to train on, and symmetric ones are asked alike on both sides."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.unify import unify
from pipeline_tasks.datasets import RELABELLED
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.synthesis.read_triplets import read_triplets
from pipeline_tasks.training.finetune import FinetuneParams
from pipeline_tasks.training.triplets import prompts, training_rows
from tests.stores import go, put, reasons, rejects, rows
from tests.synthesis.general_files import packed

TASK = "Find a sentence that follows"
ROWS = [
    {"query": "a man  runs\n", "positive": "someone runs", "negative": "a man sleeps", "task": "Find the same"},
    {"query": "it burns", "positive": "there is a fire", "negative": ["it is cold", "it rains", ""]},
    {"query": "it burns", "positive": "something is hot", "negative": None},
]


def written(folder, found: list[dict], *more: str) -> str:
    (folder / "mine.jsonl").write_text("\n".join([*map(json.dumps, found), *more]))
    return str(folder / "mine.jsonl")


def test_rows_of_files_are_rows_to_train_on(store, tmp_path):
    counters = go(store, read_triplets, source=written(tmp_path, ROWS), task=TASK, name="nli").counters
    found = rows(store, "mtt/own/nli")
    assert [(r["instruction"], r["query"], r["positive"], r["negatives"]) for r in found] == [
        ("Find the same", "a man runs", "someone runs", ["a man sleeps"]),
        (TASK, "it burns", "there is a fire", ["it is cold", "it rains"]),
        (TASK, "it burns", "something is hot", []),
    ]
    assert len({row["query_id"] for row in found}) == 3 and counters["without_negatives"] == 1
    assert {(row["intent"], row["split"]) for row in found} == {("any", "train")}
    assert all(len(row["negative_ids"]) == len(row["negative_scores"]) == len(row["negatives"]) for row in found)


def test_csv_and_parquet_say_the_same_as_lines_of_json(store, tmp_path):
    made = {"question": ["a", "b"], "answer": ["c", "d"], "wrong": ["e", "f"]}
    pq.write_table(pa.table(made | {"wrong": [["e"], ["f"]]}), tmp_path / "mine.parquet")
    lines = ["question,answer,wrong", *(",".join(row) for row in zip(*made.values(), strict=True))]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    columns = {"query": "question", "positive": "answer", "negative": "wrong"}
    for kind in ("csv", "parquet"):
        go(store, read_triplets, source=str(tmp_path / f"mine.{kind}"), task=TASK, name=kind, columns=columns)
        found = rows(store, f"mtt/own/{kind}")
        assert [(r["query"], r["positive"], r["negatives"]) for r in found] == [("a", "c", ["e"]), ("b", "d", ["f"])]


def test_symmetric_passages_are_what_a_query_with_their_task_is_to_a_model(store, tmp_path):
    source = written(tmp_path, ROWS)
    found = []
    for symmetric in (False, True):
        go(store, read_triplets, source=source, task=TASK, name="nli", symmetric=symmetric)
        found.append(rows(store, "mtt/own/nli"))
    for plain, asked in zip(*found, strict=True):
        before = Layout("mean", 64, prefixes={"qa": "Question: "}).query_prefix("any", plain["instruction"])
        assert asked["query"] == plain["query"], "the query's task goes before it where it is asked"
        assert asked["positive"] == before + plain["positive"]
        assert asked["negatives"] == [before + text for text in plain["negatives"]]
        assert asked["query_id"] == plain["query_id"]


def test_training_sees_the_same_before_both_sides(store, tmp_path):
    made = go(store, read_triplets, source=written(tmp_path, ROWS), task=TASK, name="nli", symmetric=True)
    layout = Layout("mean", 64, prefixes=prompts(), needs_intent=True)
    (block,) = training_rows([Version.open(store, made.ref)], FinetuneParams(size="22m"), layout)
    for task, row in zip(["Find the same", TASK, TASK], block.to_pylist(), strict=True):
        assert all(text.startswith(f"{task}: ") for text in (row["query"], row["positive"], *row["negatives"]))
        assert row["query"].count(task) == row["positive"].count(task) == 1
    assert block["negatives"][2].as_py() == []


def test_joined_with_their_tasks_both_sides_still_begin_alike(store, tmp_path):
    scores = {"likelihoods": [-1.0], "relevances": [1.0]}
    put(store, RELABELLED, [{"query_id": "x", "split": "dev", "passages": ["p"], "passage_ids": ["p"]} | scores])
    for symmetric in (False, True):
        go(store, read_triplets, source=written(tmp_path, ROWS), task=TASK, name="nli", symmetric=symmetric)
        go(store, unify, builds=["mtt/own/nli"], format="joined")
        found = [row for row in rows(store, "mtt/fret") if row["query_id"] != "x"]
        assert [row["query"] for row in found] == ["Find the same a man runs", *[f"{TASK} it burns"] * 2]
        before = f"{TASK} " if symmetric else ""
        assert found[1]["positive"] == f"{before}there is a fire"
        assert found[1]["negatives"] == [f"{before}it is cold", f"{before}it rains"]


def test_rows_that_are_no_triplets_are_rejects_with_a_reason(store, tmp_path):
    good = {"query": "q", "positive": "p", "negative": "n", "task": "t"}
    bad = {
        "no_query": good | {"query": " "},
        "no_positive": good | {"positive": None},
        "no_task": good | {"task": ""},
        "too_long": good | {"negative": ["n", "n" * 21]},
        "repeated_text": good | {"negative": ["n", "p"]},
        "duplicate_triplet": good,
    }
    source = written(tmp_path, [good, *bad.values()], "{")
    counters = go(store, read_triplets, source=source, name="mine", most_characters=20).counters
    assert len(rows(store, "mtt/own/mine")) == 1 and counters["rows_in"] == 8
    assert reasons(store, "mtt/own/mine") == dict.fromkeys([*bad, "bad_line"], 1)
    assert rejects(store, "mtt/own/mine")["mine.jsonl, line 2"]["reason"] == "no_query"


def test_files_without_a_triplet_and_unknown_columns_are_the_callers_mistake(store, tmp_path):
    source = written(tmp_path, [{"query": "q", "positive": "p"}])
    with pytest.raises(InputError, match="no row of .* is a triplet; most are refused as no_task, .*: say in task"):
        go(store, read_triplets, source=source)
    with pytest.raises(InputError, match="'negatives' is none of query, positive, negative, task"):
        go(store, read_triplets, source=source, columns={"negatives": "n"})


def test_a_list_of_one_text_is_that_text_and_what_is_no_text_is_none(store, tmp_path):
    given = [
        {"query": ["what is rennet"], "positive": ["An enzyme."], "negative": ["A pier.", ["A lock."], {"text": "x"}]},
        {"query": "two", "positive": ["one", "other"], "negative": "n"},
        {"query": {"text": "an object"}, "positive": "p", "negative": "n"},
    ]
    go(store, read_triplets, source=written(tmp_path, given), task=TASK, name="lists")
    (row,) = rows(store, "mtt/own/lists")
    assert (row["query"], row["positive"], row["negatives"]) == ("what is rennet", "An enzyme.", ["A pier.", "A lock."])
    assert reasons(store, "mtt/own/lists") == {"no_positive": 1, "no_query": 1}


def test_bytes_are_the_texts_that_they_are_in_utf8(store, tmp_path):
    given = [packed(row | {"negative": [row["negative"]], "task": TASK}) for row in ROWS[::2]]
    pq.write_table(pa.Table.from_pylist([*given, given[0] | {"query": b"caf\xe9"}]), tmp_path / "mine.parquet")
    go(store, read_triplets, source=str(tmp_path / "mine.parquet"), name="bytes")
    assert [(r["query"], r["positive"], r["negatives"]) for r in rows(store, "mtt/own/bytes")] == [
        ("a man runs", "someone runs", ["a man sleeps"]),
        ("it burns", "something is hot", []),
    ]
    assert reasons(store, "mtt/own/bytes") == {"no_query": 1}
