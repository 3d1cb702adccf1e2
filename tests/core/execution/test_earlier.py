from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline_tasks.core.execution.earlier import (
    earlier,
    earlier_part,
    earlier_part_and_rejects,
    earlier_version,
)
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.versions import manifest_key
from tests.core.toy_steps import latest, make, toy_scale

pytestmark = pytest.mark.usefixtures("items")


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


def test_a_part_of_the_latest_version_where_what_may_differ_is_named(store):
    def found(*free, step=toy_scale, **values):
        job = plan(store, step, values)
        run = Run(store, Inputs({}), 0, "test", "test", part=latest(store, "items").manifest.parts[0], job=job)
        return earlier_part(run, *free)

    assert found() is None
    make(store, toy_scale)
    made = latest(store, "scaled")
    assert found().equals(made.all_rows(0)) and found("factor", factor=3).equals(made.all_rows(0))
    assert found(factor=3) is None and found(step=replace(toy_scale, version="another")) is None
    store.delete(made.manifest.parts[0].key)
    assert found() is None


def test_the_latest_version_of_a_map_step_where_what_may_differ_is_named_also_with_rows_erased(store):
    def found(*free, step=toy_scale, **values):
        return earlier_version(Run(store, Inputs({}), 0, "test", "test", job=plan(store, step, values)), *free)

    assert found() is None
    ref = make(store, toy_scale).ref
    manifest = latest(store, "scaled").manifest.model_copy(update={"erased": ["some"]})
    store.replace(manifest_key(ref), manifest.to_bytes())
    assert found().manifest == found("factor", factor=3).manifest == manifest
    assert found(factor=3) is None and found(step=replace(toy_scale, version="another")) is None


def test_the_manifest_of_the_latest_version_is_read_once_for_all_parts(store, monkeypatch):
    ref, asked, read = make(store, toy_scale).ref, [], store.read
    monkeypatch.setattr(store, "read", lambda key: asked.append(key) or read(key))
    for part in latest(store, "items").manifest.parts * 3:
        run = Run(store, Inputs({}), 0, "test", "test", part=part, job=plan(store, toy_scale, {}))
        rows, refused = earlier_part_and_rejects(run)
        assert rows.equals(earlier_part(run)) and not refused.num_rows
    assert asked.count(manifest_key(ref)) == 1
