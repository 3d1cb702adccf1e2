"""Which models learned from what is erased: told by what they read, not by which erasures there had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.erasure.erase import erase
from pipeline_tasks.core.erasure.listed import Erasure, note
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, manifest_key
from tests.core.toy_steps import ITEMS
from tests.stores import go, put

A, B = "a" * 16, "b" * 16


class ToyParams(StepParams):
    """Which model."""

    name: str = "first"


@step(reads={"items": From(ITEMS, optional=True), "start": From(None, optional=True)}, writes=None, kind="reduce",
      dataset="model/{name}")  # fmt: skip
def toy_learn(inputs: Inputs, params: ToyParams, run: Run) -> Path:
    """A file of what was read; the store's owner may erase it meanwhile."""
    learned = [row["item_id"] for version in inputs.each("items") for row in version.table().to_pylist()]
    if (run.store.folder / "erase").exists():
        names(run.store)
    out = run.scratch / "model"
    out.mkdir(parents=True)
    (out / "weights").write_text(f"{learned} {[start.manifest.parts for start in inputs.each('start')]}")
    return out


def names(store: LocalStore) -> list[Ref]:
    """The models that an erasure of A names."""
    return [model.ref for model in erase(store, [A], {"items": ITEMS}).models]


def items(store: LocalStore, dataset: str, *ids: str) -> str:
    return str(put(store, ITEMS, [{"item_id": i, "value": 1} for i in (*ids, dataset)], dataset=dataset))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def test_a_model_that_read_one_input_before_the_erasure_and_one_after_it(store):
    one = items(store, "one", A)
    assert names(store) == []
    ref = go(store, toy_learn, {"items": [one, items(store, "two", A)]}).ref
    assert names(store) == [ref], "the second is written anew only now"
    alone = go(store, toy_learn, {"items": [one]}).ref
    assert names(store) == [ref] and load_manifest(store, alone).learned_from.keys() == {one}


def test_a_model_that_read_what_the_same_erasure_takes_later(store):
    one = items(store, "one", A, B)
    assert names(store) == []
    ref = go(store, toy_learn, {"items": [one]}).ref
    assert names(store) == []
    note(store, Erasure(name="of another store", ids=frozenset({B})))
    assert names(store) == [ref]


def test_a_model_whose_input_was_written_anew_while_it_was_trained(store, monkeypatch):
    (store.folder / "erase").touch()
    with monkeypatch.context() as patch:
        patch.setattr("pipeline_tasks.core.erasure.erase.living_pins", lambda _: [])
        ref = go(store, toy_learn, {"items": [items(store, "one", A)]}).ref
    assert names(store) == [ref]


def test_a_model_of_weights_that_were_trained_again_since(store):
    given = {"items": [items(store, "one", A)]}
    first = go(store, toy_learn, given).ref
    second = go(store, toy_learn, {"start": [str(first)]}, name="second").ref
    before = store.read(manifest_key(second)) or b""
    assert names(store) == [first, second]
    store.delete_all([manifest_key(first), manifest_key(second)])
    go(store, toy_learn, given)
    store.create(manifest_key(second), before)
    assert names(store) == [second], "it came back from another store"
    store.delete(manifest_key(second))
    go(store, toy_learn, {"start": [str(first)]}, name="second")
    assert names(store) == []
