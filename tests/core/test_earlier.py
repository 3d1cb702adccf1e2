from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline_tasks.core.earlier import earlier
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import latest, make, toy_list, toy_scale


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"a": 1, "b": 2})
    return store


def test_the_latest_version_made_alike(store):
    params = toy_scale.parse({})
    assert earlier(store, toy_scale, params) is None
    make(store, toy_scale)
    found = earlier(store, toy_scale, params)
    assert found and found.manifest == latest(store, "scaled").manifest


def test_nothing_made_with_other_code_or_parameters(store):
    make(store, toy_scale)
    assert earlier(store, replace(toy_scale, version="another"), toy_scale.parse({})) is None
    assert earlier(store, replace(toy_scale, name="another"), toy_scale.parse({})) is None
    assert earlier(store, toy_scale, toy_scale.parse({"factor": 3})) is None


def test_a_version_that_is_gone_is_no_hint(store):
    made = make(store, toy_scale).ref
    store.delete(f"versions/{made.dataset}/{made.version}.json")
    assert earlier(store, toy_scale, toy_scale.parse({})) is None
