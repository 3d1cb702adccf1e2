"""A dataset that grows is not set back by a task of older inputs that comes late."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.execution.todo import Todo
from pipeline_tasks.core.plan import Job, plan
from pipeline_tasks.core.pointing import move
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from tests.core.toy_steps import latest, make, rows_of, toy_gather, toy_list

pytestmark = pytest.mark.usefixtures("items")

FIRST = {"a": 1, "b": 2}


def made_of(store: LocalStore) -> dict[str, bytes | None]:
    return {key: store.read(key) for folder in ("versions", "refs", "requests") for key in store.keys(folder)}


def refused(store: LocalStore, job: Job) -> str:
    """What a run and a dry run say, which leave the store as it is."""
    before = made_of(store)
    with pytest.raises(InputError) as said:
        run_job(store, job)
    with pytest.raises(InputError, match=re.escape(str(said.value))):
        Todo.of(store, job)
    assert made_of(store) == before
    return str(said.value)


@pytest.mark.parametrize("asked", ["monday", "tuesday"])
@pytest.mark.parametrize("points", [False, True])
def test_a_task_of_older_inputs_is_refused_with_remedies_that_work(store, asked, points):
    make(store, toy_gather, asked="monday")
    make(store, toy_list, rows=FIRST | {"d": 4})
    values = {"asked": asked, "withdraw": ("a",)}
    older = plan(store, toy_gather, values)
    (read,) = older.inputs["items"]
    make(store, toy_list, rows=FIRST | {"d": 4, "e": 5})
    newer, newest = make(store, toy_gather, asked="monday").ref, latest(store, "items").manifest.ref
    assert refused(store, older) == (
        f"toy_gather of {read} would set gathered back: {newer} was made of {newest}, the latest of items; run it with "
        f"that, or make {read} the latest first: foundry point {read}"
    )
    if points:
        move(store, read)
    made = run_job(store, older if points else plan(store, toy_gather, values, {"items": [str(newest)]})).ref
    assert latest(store, "gathered").manifest.ref == made
    read_now = str(read if points else newest)
    assert load_manifest(store, made).inputs == {"items": [read_now], "previous": [str(newer)]}
    assert [row["item_id"] for row in rows_of(store, "gathered")] == ["b", "d", "e"]


def test_it_is_refused_where_newer_inputs_changed_nothing_and_where_its_code_is_another(store):
    first = make(store, toy_gather)
    make(store, toy_list, rows=FIRST | {"d": 4})
    older = plan(store, toy_gather, {})
    make(store, toy_list, rows=FIRST | {"b": 22})
    assert make(store, toy_gather).ref == first.ref
    assert f"{first.ref} was made of {latest(store, 'items').manifest.ref}" in refused(store, older)
    assert "would set gathered back" in refused(store, replace(older, step=replace(toy_gather, version="2")))


def test_older_inputs_set_nothing_back_before_newer_ones_are_read_or_after_a_person_went_back(store):
    first = make(store, toy_gather)
    make(store, toy_list, rows=FIRST | {"d": 4})
    older, other = (plan(store, toy_gather, {"asked": asked}) for asked in ("monday", "friday"))
    make(store, toy_list, rows=FIRST | {"e": 5})
    assert run_job(store, older).counters["rows_out"] == 3
    make(store, toy_gather, asked="tuesday")
    refused(store, other)
    move(store, first.ref)
    assert load_manifest(store, run_job(store, other).ref).inputs["previous"] == [str(first.ref)]


def test_a_step_that_always_looks_is_not_refused(store):
    always = replace(toy_gather, always=True)
    older = plan(store, always, {})
    make(store, toy_list, rows=FIRST | {"d": 4})
    assert make(store, always).counters["rows_out"] == 3
    assert run_job(store, older).reused
