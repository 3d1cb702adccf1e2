"""``foundry agreement`` as a person uses it: a sample out, labels in, what the check makes of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation import check_tuples_by_margin as module
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.retrieval.encoder import Encoder
from tests.stores import go, put, rows

PARTS = {"instruction": "a", "poisoned_instruction": "b", "query": "c", "poisoned_query": "d"}
CLEAN = {"positive": "a c", "instruction_passage": "b c", "query_passage": "a d"}
LEAKY = CLEAN | {"positive": "a", "query_passage": "a c"}
N_CLEAN, N_LEAKY = 12, 8


class Words(Encoder):
    """A dimension for each of a few words."""

    def _vectors(self, texts, prefixes, done):
        return np.array([[word in text for word in "abcd"] for text in texts], np.float32)


def given(number: int, **changed: str) -> dict[str, str]:
    texts = CLEAN if number < N_CLEAN else LEAKY
    return {"query_id": f"q{number}", "intent": "qa", "split": "train"} | PARTS | texts | changed


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    """Tuples of which a check kept q0 to q11 and refused the others."""
    store = LocalStore(tmp_path / "store")
    monkeypatch.setattr(
        module.CheckTuplesByMarginParams, "open", lambda self, texts, run: Words("words", 4, Layout("mean", 8))
    )
    put(store, TUPLES, [given(number) for number in range(N_CLEAN + N_LEAKY)], dataset="tuples/poisoned")
    go(store, module.check_tuples_by_margin, model="all-minilm-l6-v2", further=(), margin=0.1)
    assert len(rows(store, "tuples/by-margin")) == N_CLEAN
    return store


@pytest.fixture
def foundry(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    monkeypatch.chdir(tmp_path)
    settings.cache_clear()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["agreement", arguments[0], "--of", "tuples/by-margin", *arguments[1:]])
        if done.exception:
            raise done.exception
        return done.output

    return run


def read(file: str) -> list[dict]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def fill(file: str, labels: list[dict]) -> None:
    Path(file).write_text("".join(json.dumps(row) + "\n" for row in labels))


def is_clean(row: dict) -> bool:
    return row["positive"] == CLEAN["positive"]


def test_a_sample_has_kept_and_refused_alike_and_does_not_say_which(foundry):
    foundry("sample", "all.jsonl")
    found = read("all.jsonl")
    assert len({row["tuple_id"] for row in found}) == N_CLEAN + N_LEAKY
    assert {row["keep"] for row in found} == {row["failed"] for row in found} == {""}
    assert "q0" not in Path("all.jsonl").read_text() and "not_poison" not in Path("all.jsonl").read_text()
    order = [is_clean(row) for row in found]
    assert order != sorted(order) and order != sorted(order, reverse=True), "the order says which"
    foundry("sample", "some.jsonl", "--n", "6")
    assert read("some.jsonl") == found[:6], "a smaller sample is the beginning of a larger one"
    assert 0 < sum(map(is_clean, found[:6])) < 6


def test_labels_say_how_far_the_check_agrees_and_where_it_does_not(foundry):
    foundry("sample", "labels.jsonl")
    labels = read("labels.jsonl")
    clean, leaky = (iter([row for row in labels if is_clean(row) is kind]) for kind in (True, False))
    for row in labels:
        row["keep"] = True if is_clean(row) else "no"
    wrong = next(clean) | {"keep": "No", "failed": "query_passage"}
    right = next(leaky) | {"keep": "YES"}
    left_out = next(leaky) | {"keep": None}
    changed = {row["tuple_id"]: row for row in (wrong, right, left_out)}
    fill("labels.jsonl", [changed.get(row["tuple_id"], row) for row in labels])
    found = json.loads(foundry("read", "labels.jsonl", "--format", "json"))
    assert found["n"] == 19 and found["table"] == [[11, 1], [1, 6]] and found["of"].startswith("tuples/by-margin@")
    by_chance = (12 * 12 + 7 * 7) / 19**2
    assert found["kappa"] == pytest.approx((17 / 19 - by_chance) / (1 - by_chance))
    assert found["low"] < found["kappa"] < found["high"]
    differ = {row["tuple_id"]: row for row in found["differ"]}
    assert differ.keys() == {wrong["tuple_id"], right["tuple_id"]}
    assert differ[wrong["tuple_id"]]["failed"] == "query_passage" and differ[wrong["tuple_id"]]["check"] == "keep"
    assert differ[right["tuple_id"]]["check"].startswith("not_poison: positive: -")
    told = foundry("read", "labels.jsonl")
    assert "on 19 labels: agreement 0.895, Cohen's kappa 0.774 (95% interval " in told
    assert "refuse (query_passage)" in told and "not_poison" in told
    shown = {query_id for query_id in (f"q{n}" for n in range(20)) if f" {query_id} " in told}
    assert shown == {row["query_id"] for row in differ.values()}


def test_a_sample_as_csv_comes_back_as_it_was_filled_in(foundry, store):
    put(store, TUPLES, [given(0, positive='=a c\n\na, "c"')], dataset="tuples/poisoned")
    go(store, module.check_tuples_by_margin, model="all-minilm-l6-v2", further=(), margin=0.1)
    foundry("sample", "labels.csv")
    with Path("labels.csv").open(encoding="utf-8-sig", newline="") as handle:
        (row,) = csv.DictReader(handle)
    assert row["positive"] == '\'=a c\n\na, "c"', "a spreadsheet would run it"
    with Path("labels.csv").open("w", encoding="utf-8-sig", newline="") as handle:
        writer = csv.DictWriter(handle, list(row))
        writer.writeheader()
        writer.writerows([row | {"keep": "TRUE"}, row | {"tuple_id": "strange", "keep": "maybe"}])
    with pytest.raises(InputError, match="labels.csv, line 5: keep is 'maybe': write yes or no"):
        foundry("read", "labels.csv")
    text = Path("labels.csv").read_text(encoding="utf-8-sig")
    Path("labels.csv").write_text(text[: text.index("strange")])
    assert "on 1 labels: agreement 1.000, Cohen's kappa not defined" in foundry("read", "labels.csv")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"keep": "perhaps"}, "line 2: keep is 'perhaps': write yes or no"),
        ({"keep": 2}, "line 2: keep is '2'"),
        ({"keep": "no", "failed": "query"}, "line 2: failed is 'query': write instruction_passage, positive, query"),
        ({"keep": "yes", "failed": "positive"}, "line 2: failed is 'positive', but keep is 'yes'"),
        ({"tuple_id": "0123456789abcdef", "keep": "yes"}, "line 2: tuple t0123456789abcdef is none that this check"),
        ({"tuple_id": ""}, "line 2: no tuple_id"),
    ],
)
def test_a_row_that_is_no_label_is_named_with_its_line(foundry, changed, told):
    foundry("sample", "labels.jsonl")
    first, second, *others = read("labels.jsonl")
    fill("labels.jsonl", [first, second | changed, *others])
    with pytest.raises(InputError, match=told):
        foundry("read", "labels.jsonl")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "line 1: no tuple_id"),
        ("[1]\n", "line 1: no tuple_id"),
        ("\n", "has no labels: write yes or no under keep"),
        (
            '{"tuple_id": "a", "keep": "yes"}\n{"tuple_id": "a", "keep": "no"}\n',
            "line 2: tuple ta is in line 1 already",
        ),
    ],
)
def test_a_file_that_is_none_is_said_so(foundry, text, told):
    Path("labels.jsonl").write_text(text)
    with pytest.raises(InputError, match=told):
        foundry("read", "labels.jsonl")


def test_no_label_is_written_over_and_none_is_taken_for_that_of_another_tuple(foundry, store):
    foundry("sample", "labels.jsonl")
    with pytest.raises(InputError, match="not there yet"):
        foundry("sample", "labels.jsonl")
    fill("labels.jsonl", [row | {"keep": "yes"} for row in read("labels.jsonl")])
    put(store, TUPLES, [given(0, query_passage="a d d"), given(13)], dataset="tuples/poisoned")
    go(store, module.check_tuples_by_margin, model="all-minilm-l6-v2", further=(), margin=0.1)
    with pytest.raises(InputError, match="none that this check judged"):
        foundry("read", "labels.jsonl")


def test_what_no_check_made_has_no_verdicts(foundry):
    with pytest.raises(InputError, match="is not what a check of tuples kept"):
        foundry("sample", "labels.jsonl", "--of", "tuples/poisoned")
