"""``foundry diversity`` over texts whose likeness is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli import diversity as module
from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import TOLD_PAIRS, TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.report.sections.diversity import diversity_section
from pipeline_tasks.report.subject import lineage
from pipeline_tasks.retrieval.encoder import Encoder
from tests.stores import put


class Words(Encoder):
    """A dimension for each of a few words."""

    def _vectors(self, texts, prefixes, done):
        return np.array([[word in text for word in ("new", "old", "short")] for text in texts], np.float32)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    told = ["only new ones", "only old ones", "only new ones", "short", None, "  "]
    rows = [{"query_id": f"q{n}", "split": "train", "instruction": text} for n, text in enumerate(told)]
    instructed = put(store, TOLD_PAIRS, rows[:3], rows[3:], dataset="mtp/instructed")
    put(store, TUPLES, rows[:2], dataset="tuples/checked", tuples=instructed)
    return store


@pytest.fixture
def foundry(store: LocalStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    monkeypatch.setattr(module, "open_encoder", lambda name: Words(name, 3, Layout("mean", 8)))
    settings.cache_clear()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["diversity", *arguments])
        if done.exception:
            raise done.exception
        return done.output

    return run


def test_texts_are_measured_and_the_model_is_named(foundry):
    found = json.loads(foundry("mtp/instructed", "--model", "words", "--format", "json"))
    (one,) = found.pop("datasets")
    assert found == {"column": "instruction", "n": 4, "model": "words"}
    assert one.pop("dataset").startswith("mtp/instructed@")
    by_hand = {"all": 4, "different": 3, "aps": 1 / 6, "words": 5 / 10, "pairs": 4 / 6, "triples": 2 / 3}
    assert one == pytest.approx(by_hand)
    told = foundry("mtp/instructed", "--model", "words")
    assert "4 texts of each; APS by words" in told and "0.167" in told


def test_datasets_are_compared_by_as_many_texts_as_the_smallest_has(foundry):
    found = json.loads(foundry("mtp/instructed", "tuples/checked", "--format", "json"))
    assert found["n"] == 2 and [one["all"] for one in found["datasets"]] == [4, 2]
    assert found["datasets"][1]["aps"] == 0
    assert json.loads(foundry("mtp/instructed", "--n", "2", "--format", "json"))["datasets"] == found["datasets"][:1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mtp/instructed", "--column", "told"], "has no column 'told'"),
        (["tuples/checked", "--column", "poisoned_query"], "has 0 texts in 'poisoned_query'"),
        (["mtp/instructed/rejects"], "has no column 'instruction'"),
    ],
)
def test_what_has_no_texts_is_said_so(foundry, arguments, told):
    with pytest.raises(InputError, match=told):
        foundry(*arguments)


def test_the_report_draws_the_same_texts(foundry, store):
    checked = next(iter(json.loads(foundry("tuples/checked", "--format", "json"))["datasets"]))
    model = put(store, TOLD_PAIRS, [{"query_id": "q"}], dataset="model/22m/instructions", tuples=checked["dataset"])
    of_both = json.loads(foundry("mtp/instructed", "tuples/checked", "--format", "json"))["datasets"]
    with lineage(store) as ask:
        section = diversity_section(ask, str(model))
    shown = [(row[0].ref, *row[1:]) for row in section.table.rows]
    assert len(shown) == 2
    for cells, one in zip(shown, of_both, strict=True):
        shares = (f"{one[name]:.3f}" for name in ("words", "pairs", "triples"))
        assert cells == (one["dataset"], str(one["all"]), str(one["different"]), *shares)
