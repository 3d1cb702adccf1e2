"""A judged set, and pairs of others, are the same wherever they lie, and DisastIR is read as it is published."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import for_a_form
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.evaluation.judge_queries import judge_queries
from pipeline_tasks.evaluation.read_passages import read_passages
from pipeline_tasks.synthesis.read_general_pairs import read_general_pairs
from pipeline_tasks.synthesis.read_pairs import read_pairs
from tests.evaluation.test_judged_sets import folder
from tests.seaweed import BUCKET, Seaweed, running
from tests.stores import go, put, reasons, rows
from tests.synthesis.general_files import N, columns


def read(store: LocalStore, name: str) -> tuple[str, str]:
    """The versions of corpus and queries of the set in a folder."""
    given = {"set_name": "mine", "folder": name}
    corpus = str(go(store, read_passages, **given).ref)
    return corpus, str(go(store, judge_queries, {"passages": [corpus]}, **given).ref)


def test_a_set_of_a_folder_is_the_same_beside_other_pairs(store, tmp_path):
    given = {"set_name": "mine", "folder": str(tmp_path / "set")}
    folder(tmp_path / "set", [{"_id": "1", "text": "water"}], [{"_id": "a", "text": "wet?"}], "a\t1\t2\n")
    first = read(store, given["folder"])
    put(store, PAIRS, [{"query_id": "q", "split": "test"}], dataset="mtp")
    assert read(store, given["folder"]) == first
    named = go(store, judge_queries, {"passages": [first[0]], "pairs": ["mtp"]}, **given).ref
    assert str(named) == first[1] and Version.open(store, named).manifest.inputs == {"passages": [first[0]]}


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory):
    with running(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


def test_a_set_in_a_bucket_is_the_set_that_was_put_there(store, seaweed: Seaweed, tmp_path, monkeypatch):
    for name, value in (seaweed.environment | {"FOUNDRY_STORE_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    corpus, queries = [{"_id": "1", "text": "water"}, {"_id": "2", "text": "fire"}], [{"_id": "a", "text": "wet?"}]
    here = Path(folder(tmp_path / "set", corpus, queries, "a\t1\t2\n"))
    client, there = seaweed.client(), f"s3://{BUCKET}/sets/mine"

    def put_there(file: Path) -> None:
        client.upload_file(str(file), BUCKET, f"sets/mine/{file.relative_to(here)}")

    for file in here.rglob("*.*"):
        put_there(file)
    for other in ("notes.pdf", "back\\slash.txt"):
        client.put_object(Bucket=BUCKET, Key=f"sets/mine/{other}", Body=b"x")
    assert read(store, there) == read(store, str(here))
    assert not list((tmp_path / "cache").rglob("notes.pdf")), "what is no file of a set stays there"
    (here / "qrels" / "test.tsv").write_text("a\t2\t1\n")
    put_there(here / "qrels" / "test.tsv")
    assert read(store, there) == read(store, str(here)) and rows(store, "judged/mine")[0]["passage_ids"] == ["2"]
    refused = (
        (f"s3://{BUCKET}/nowhere", "nowhere has none of corpus.jsonl"),
        (f"s3://{BUCKET}", "names no folder of a bucket"),
    )
    for name, message in refused:
        with pytest.raises(InputError, match=message):
            read(store, name)
    with for_a_form(), pytest.raises(InputError, match="is no folder"):
        read(store, there)
    settings.cache_clear()


def test_pairs_in_a_bucket_are_those_that_were_put_there(store, seaweed: Seaweed, tmp_path, monkeypatch):
    for name, value in (seaweed.environment | {"FOUNDRY_STORE_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    here, client = tmp_path / "general", seaweed.client()
    columns(here / "squad" / "pair" / "train-0.parquet", "squad", "question", "answer")
    client.upload_file(str(here / "squad/pair/train-0.parquet"), BUCKET, "general/squad/pair/train-0.parquet")
    versions = [
        go(store, read_general_pairs, source=source).ref.version for source in (f"s3://{BUCKET}/general", str(here))
    ]
    assert len(rows(store, "mtp/gd")) == N
    columns_of = {"query": "question", "positive": "answer"}
    go(store, read_pairs, name="own", source=f"s3://{BUCKET}/general/squad", columns=columns_of)
    assert {row["query"] for row in rows(store, "mtp/own/own")} == {row["query"] for row in rows(store, "mtp/gd")}
    with for_a_form(), pytest.raises(InputError, match="has no folder of a set"):
        go(store, read_general_pairs, source=f"s3://{BUCKET}/general")
    assert len(set(versions)) == 1, "the version says what the files hold, not where they lie"
    settings.cache_clear()


CORPUS = {"c1": "Leave before the river rises.", "c2": "Ash falls like grey snow.", "c3": "Nobody asks for this."}
QUERIES = {
    "QA_Geo": {"1": "when do I leave?"},
    "QA_doc_Geo": {"1": "when do I leave?"},
    "fact-check_Bio": {"1": "Ash is white."},
}
QRELS = {
    "QA_Geo": [("when do I leave?", "c1", 3), ("when do I leave?", "c2", 0)],
    "QADoc_Geo": [("when do I leave?", "c2", 1)],
    "FactCheck_Bio": [("Ash is white.", "c2", 2), ("Ash is white.", "gone", 1), ("nobody asked", "c1", 1)],
}


def judged(given: dict, path: Path) -> None:
    row = {"user_query": "q", "passage": "p", "score": 1} | given
    (path / "qrels" / "QA_Geo.json").write_text(json.dumps([row]))


@pytest.fixture
def disastir(tmp_path) -> Path:
    """Three tasks, one file a JSON array and the others an object a line."""
    path = tmp_path / "DisastIR"
    for name in ("query", "qrels"):
        (path / name).mkdir(parents=True)
    corpus = [{"corpus_id": name, "text": text} for name, text in CORPUS.items()]
    (path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    for name, queries in QUERIES.items():
        objects = [{"query_id": i, "user_query": text} for i, text in queries.items()]
        (path / "query" / f"{name}.json").write_text(json.dumps(objects))
    for name, judged in QRELS.items():
        objects = [{"user_query": q, "passage": CORPUS.get(p, p), "score": score} for q, p, score in judged]
        (path / "qrels" / f"{name}.json").write_text("\n".join(map(json.dumps, objects)))
    return path


def test_disastir_is_read_by_intent_with_its_grades(store, disastir):
    read(store, str(disastir))
    assert {row["passage_id"]: row["text"] for row in rows(store, "corpus/mine")} == CORPUS
    found = {row["query_id"]: (row["intent"], row["passage_ids"], row["grades"]) for row in rows(store, "judged/mine")}
    assert found == {
        "QA_Geo/1": ("qa", ["c1", "c2"], [3, 0]),
        "QA_doc_Geo/1": ("qadoc", ["c2"], [1]),
        "fact-check_Bio/1": ("factcheck", ["c2"], [2]),
    }
    assert reasons(store, "judged/mine") == {"unknown_passage": 1, "unknown_query": 1}


def test_all_passages_of_one_text_have_its_grade(store, disastir):
    with (disastir / "corpus.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"corpus_id": "c9", "text": CORPUS["c1"]}))
    read(store, str(disastir))
    found = {
        row["query_id"]: dict(zip(row["passage_ids"], row["grades"], strict=True)) for row in rows(store, "judged/mine")
    }
    assert found["QA_Geo/1"] == {"c1": 3, "c9": 3, "c2": 0}


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: (path / "corpus.jsonl").unlink(), "has no corpus.jsonl: fetch the whole of DisastIR"),
        (lambda path: [file.unlink() for file in (path / "qrels").iterdir()], "qrels has no .json file"),
        (lambda path: (path / "qrels" / "QA_Geo.json").unlink(), "QA_Geo.json has queries of qa, and no file"),
        (lambda path: (path / "query" / "Geo.json").write_text("[]"), "Geo.json: its name says no intent"),
        (lambda path: (path / "qrels" / "QA_Geo.json").write_text('[{"user_query": "q"}]'), "has no passage"),
        *(
            (partial(judged, given), message)
            for given, message in (
                ({"score": 2_000_000_000}, "QA_Geo.json: the score 2000000000 is no whole number up to 1000"),
                ({"score": True}, "QA_Geo.json: the score True is no whole number"),
                ({"passage": ["x"]}, r"QA_Geo.json: .* is no text"),
            )
        ),
        (lambda path: (path / "qrels" / "QA_Geo.json").write_text("[1, 2"), "neither a JSON array of objects nor"),
        (lambda path: (path / "qrels" / "QA_Geo.json").write_bytes(b'["\xe9"]'), "QA_Geo.json is not UTF-8 .*: write"),
    ],
)
def test_what_disastir_lacks_is_named(store, disastir, break_it, message):
    break_it(disastir)
    with pytest.raises(InputError, match=message):
        read(store, str(disastir))
