"""The corpus of an evaluation is encoded once for each model, whatever is asked of it and whoever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.manifest import Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import REMOVED, Version, commit, point
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation import corpus_vectors
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.encoder import Encoder
from tests import shapes
from tests.stores import go, put, rows
from tests.training.made import put_model

MODEL = "all-minilm-l6-v2"
CORPUS = [[7, 3], [1, 8, 5, 2, 6], [4]]
"""Numbers of passages, part by part."""
CHILD = """
import sys
from pathlib import Path
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from tests.stores import go
go(LocalStore(Path(sys.argv[1])), evaluate_retriever, {"models": []}, size="", models=(), systems=(sys.argv[2],))
"""


def passages(numbers: list[int]) -> list[dict]:
    words = [*shapes.TOPICS, *shapes.FILLERS]
    said = {n: " ".join(words[(n * k) % len(words)] for k in (1, 5, 7, 11)) for n in numbers}
    return [{"passage_id": f"p{n:06}", "text": text} for n, text in said.items()]


def judge(store: LocalStore, name: str, numbers: list[int]) -> None:
    """A set of queries, each of which is the text of a passage and answered by it."""
    asked = [
        {"query_id": f"q{row['passage_id']}", "query": row["text"], "intent": "qa"}
        | {"passage_ids": [row["passage_id"]], "grades": [1]}
        for row in passages(numbers)
    ]
    put(store, JUDGED_QUERIES, asked, dataset=f"judged/{name}")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, *map(passages, CORPUS))
    judge(store, "heldout", [1, 4])
    judge(store, "questions", [2, 3, 5])
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shapes.make("bert", tmp_path / "model")


def remove(store: LocalStore, ids: list[str]) -> None:
    """Let the latest passages be those without these."""
    before = Version.open(store, Ref.parse("passages")).manifest
    keys = write_rows(store, pa.table({"key": ids}, schema=REMOVED))
    gone = Removal(part=keys, column="passage_id", first=0, last=len(before.parts))
    update = {"id": "0" * 16, "removals": [gone], "rows": before.rows - len(ids)}
    commit(store, before.model_copy(update=update))
    point(store, Ref(dataset="passages", version="0" * 16))


def evaluated(store: LocalStore, set_name: str, models: list[Ref] | None = None, **values: Any) -> Outcome:
    given = {"models": list(map(str, models or []))}
    return go(store, evaluate_retriever, given, **{"set_name": set_name, "size": "", "models": (), **values})


def encoded_and_read(outcome: Outcome) -> tuple[float, float]:
    return outcome.counters["texts_encoded"], outcome.counters["vectors_read"]


@pytest.mark.parametrize("kind", ["folder", "start", "version", "registered"])
def test_another_set_and_a_question_more_cost_their_queries(store, folder, kind):
    if kind == "registered":
        fetch(get(MODEL), settings().cache)
    asked: dict[str, Any] = {
        "folder": {"systems": (str(folder),)},
        "start": {"backbone": str(folder), "systems": ()},
        "version": {"systems": ()},
        "registered": {"systems": (MODEL,)},
    }[kind]
    asked |= {"models": [put_model(store, folder, "model/33m/pretrain")]} if kind == "version" else {}
    assert encoded_and_read(evaluated(store, "heldout", **asked)) == (8 + 2, 0)
    assert encoded_and_read(evaluated(store, "questions", **asked)) == (3, 8)
    judge(store, "questions", [2, 3, 5, 8])
    assert encoded_and_read(evaluated(store, "questions", **asked)) == (4, 8)
    assert {row["passage_ids"][0] for row in rows(store, "eval/questions")} == {f"p{n:06}" for n in (2, 3, 5, 8)}


def test_what_queries_are_told_says_nothing_of_passages(store, monkeypatch):
    fetch(get(MODEL), settings().cache)
    found = []
    for told in ({}, {"qa": "Answer: "}, {"qa": "Reply: "}):
        for room in ("evaluation_params", "rank_systems"):
            monkeypatch.setattr(f"pipeline_tasks.evaluation.{room}.instructions_of", lambda spec, told=told: told)
        found.append(encoded_and_read(evaluated(store, "heldout", backbone=MODEL, systems=(MODEL,))))
    assert found == [(2 * (8 + 2), 0), (2 * 2, 2 * 8), (2 * 2, 2 * 8)]


@pytest.mark.parametrize("block", [2, 3, 100])
def test_rankings_are_the_same_whatever_is_encoded_at_once_and_of_live_passages_alone(
    store, folder, monkeypatch, block
):
    whole = evaluated(store, "questions", systems=(str(folder),))
    wanted = [row["passage_ids"] for row in Version.open(store, whole.ref).table().to_pylist()]
    other = LocalStore(store.root.with_name("other"))
    put(other, PASSAGES, *(passages([10 + n, *part]) for n, part in enumerate(CORPUS)))
    remove(other, ["p000010", "p000011", "p000012"])
    judge(other, "questions", [2, 3, 5])
    monkeypatch.setattr(corpus_vectors, "BLOCK", block)
    outcome = evaluated(other, "questions", systems=(str(folder),))
    assert [row["passage_ids"] for row in rows(other, "eval/questions")] == wanted
    assert encoded_and_read(outcome) == (8 + 3, 0)


def test_a_refresh_leaves_what_was_encoded_of_the_parts_before(store, folder, monkeypatch):
    monkeypatch.setattr(corpus_vectors, "BLOCK", 4)
    asked = {"systems": (str(folder),)}
    evaluated(store, "heldout", **asked)
    put(store, PASSAGES, *map(passages, [*CORPUS, [9, 10]]))
    assert encoded_and_read(evaluated(store, "heldout", **asked)) == (2 + 3, 7), "the last block has grown"


def test_killed_while_encoding_it_goes_on_with_the_blocks_that_are_missing(tmp_path, folder):
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, *(passages([*range(first, first + 4000)]) for first in range(0, 24_000, 4000)))
    judge(store, "heldout", [1, 4])
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(store.root), str(folder)])
    while not list(store.keys("memo")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = 4000 * len(list(store.keys("memo")))
    assert 0 < done < 24_000
    assert encoded_and_read(evaluated(store, "heldout", systems=(str(folder),))) == (24_000 - done + 2, done)


def test_a_folder_that_changes_between_two_blocks_is_an_error_and_what_was_encoded_before_stays(
    store, folder, monkeypatch
):
    monkeypatch.setattr(corpus_vectors, "BLOCK", 2)
    config, encode, calls = folder / "config.json", Encoder.encode_passages, []
    whole = config.read_text()

    def changing(self: Encoder, texts: list[str]) -> Any:
        calls.append(texts)
        if len(calls) == 3:
            config.write_text(whole + "\n")
        return encode(self, texts)

    with monkeypatch.context() as meanwhile, pytest.raises(InputError, match="changed since this run began"):
        meanwhile.setattr(Encoder, "encode_passages", changing)
        evaluated(store, "heldout", systems=(str(folder),))
    assert [len(texts) for texts in calls] == [2, 2, 2]
    config.write_text(whole)
    assert encoded_and_read(evaluated(store, "heldout", systems=(str(folder),))) == (4 + 2, 4)


def test_a_ranking_that_is_there_needs_no_vectors_and_gc_drops_both(store, folder):
    asked = {"systems": (str(folder),)}
    evaluated(store, "heldout", **asked)
    kept = {key: record.tables for key, data in store.read_all(store.keys("memo")) if (record := Record.read(data))}
    (vectors,) = [part for tables in kept.values() for part in tables if part.rows == 8]
    store.delete(vectors.key)
    assert encoded_and_read(evaluated(store, "heldout", **asked, measures=("recall@2",))) == (0, 0)
    assert encoded_and_read(evaluated(store, "questions", **asked)) == (8 + 3, 0)
    drop(store, find_garbage(store, grace_s=-1))
    assert store.exists(vectors.key)
    drop(store, find_garbage(store, memo=True, grace_s=-1))
    assert not store.exists(vectors.key)
    assert len(rows(store, "eval/questions")) == 3
