"""Classification sets become triplets whose in-batch negatives teach nothing."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.synthesis.read_classes import read_classes
from tests.stores import go, reasons, rows

TEXTS = {f"{label} number {n}": label for label in ("fire", "flood", "storm") for n in range(5)}


def write(folder, texts, *more):
    lines = [json.dumps({"text": text, "kind": kind}) for text, kind in texts.items()]
    (folder / "classes.jsonl").write_text("\n".join([*lines, *more]))
    return {"source": str(folder / "classes.jsonl"), "columns": {"label": "kind"}}


@pytest.mark.parametrize("ids", [True, False])
def test_the_positive_has_the_label_the_negative_has_not_and_all_three_begin_with_one_id(tmp_path, ids):
    store = LocalStore(tmp_path / "store")
    more = ['{"text": "alone here", "kind": "hail"}', '{"text": "", "kind": "fire"}', '{"text": "x"}', "{", json.dumps(
        {"text": "fire number 0", "kind": "storm"})]  # fmt: skip
    counters = go(store, read_classes, **write(tmp_path, TEXTS, *more), name="kinds", ids=ids).counters
    found = rows(store, "mtt/own/kinds")
    assert len(found) == len({row["query_id"] for row in found}) == len(TEXTS) and counters["labels"] == 4
    for row in found:
        start = f"{row['query_id']} " if ids else ""
        texts = [row["query"], row["positive"], *row["negatives"]]
        assert all(text.startswith(start) for text in texts)
        query, positive, negative = (text.removeprefix(start) for text in texts)
        assert query != positive and TEXTS[query] == TEXTS[positive]
        assert TEXTS.get(negative) != TEXTS[query]
    assert {row["instruction"] for row in found} == {"Given a text, find another text of the same class."}
    assert len({row["positive_id"] for row in found}) > 3 and len({row["negative_ids"][0] for row in found}) > 3
    wanted = {"alone": 1, "no_text": 1, "no_label": 1, "bad_line": 1, "duplicate_text": 1}
    assert reasons(store, "mtt/own/kinds") == wanted


def test_one_label_alone_is_the_callers_mistake(tmp_path):
    with pytest.raises(InputError, match="has 1 labels: a negative needs another one"):
        go(LocalStore(tmp_path / "store"), read_classes, **write(tmp_path, {"a": "x", "b": "x"}))


def test_files_with_other_columns_are_told_from_files_with_one_label(tmp_path):
    (tmp_path / "classes.csv").write_text("body,label\nit burns,fire\n")
    with pytest.raises(InputError, match=r"refused as no_text, .*read as text=text, label=label, .*are body, label:"):
        go(LocalStore(tmp_path / "store"), read_classes, source=str(tmp_path / "classes.csv"))


def test_labels_may_be_numbers_from_zero(tmp_path):
    store = LocalStore(tmp_path / "store")
    given = [{"text": text, "label": ("fire", "flood", "storm").index(label)} for text, label in TEXTS.items()]
    (tmp_path / "classes.jsonl").write_text("\n".join(map(json.dumps, given)))
    assert go(store, read_classes, source=str(tmp_path / "classes.jsonl")).counters["labels"] == 3
    assert len(rows(store, "mtt/own/classes")) == len(TEXTS)
