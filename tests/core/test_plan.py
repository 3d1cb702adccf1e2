from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import (
    latest,
    make,
    toy_gather,
    toy_list,
    toy_model,
    toy_scale,
    toy_total,
    toy_unique,
    toy_weigh,
)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"a": 1})
    return store


def test_a_job_names_its_version_before_any_work(store):
    job = plan(store, toy_scale, {})
    assert not job.made(store)
    assert make(store, toy_scale).ref == job.ref and job.made(store)


def test_latest_is_pinned_when_the_job_is_made(store):
    job = plan(store, toy_scale, {})
    make(store, toy_list, rows={"a": 1, "b": 2})
    assert plan(store, toy_scale, {}).ref != job.ref
    assert plan(store, toy_scale, {}, {"items": [str(job.inputs["items"][0])]}).ref == job.ref


def test_parameters_enter_the_id_but_not_tuning(store):
    ids = {plan(store, toy_scale, values).ref for values in ({}, {"factor": 3}, {"effort": 1}, {"factor": 2})}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("what", "values", "given", "said"),
    [
        (toy_scale, {}, {"itmes": ["items"]}, ["'itmes'", "items"]),
        (toy_list, {"rows": {}}, {"x": ["items"]}, ["'x'", "none"]),
        (toy_scale, {"nope": 1}, None, ["nope", "factor"]),
        (toy_unique, {}, {"scaled": ["items"]}, ["scaled=items@", "'items'", "name a dataset of 'scaled'"]),
        (toy_weigh, {}, {"model": ["items"]}, ["model=items@", "name a dataset of 'files'"]),
        (toy_total, {}, None, ["bare@latest", "run the step that writes it"]),
        (toy_scale, {}, {"items": ["items@0123"]}, ["items@0123", "versions there"]),
        (toy_scale, {}, {"items": []}, ["--input items= names nothing", "leave it out to read items"]),
        (toy_scale, {}, {"items": ["../items"]}, ["'../items'", "passages@latest"]),
        (toy_model, {"size": "../.."}, None, ["model/../../toy"]),
        (toy_model, {"size": "x@y"}, None, ["model/x@y/toy"]),
        (toy_weigh, {"size": "4b@x"}, None, ["sizes/4b@x", "no dataset name; change the parameter"]),
        (toy_model, {"size": "4 b"}, None, ["model/4 b/toy"]),
        (toy_model, {"size": "latest"}, None, ["'model/latest/toy'", "is the name of a version"]),
    ],
)
def test_the_callers_mistake_is_named_with_a_remedy(store, what, values, given, said):
    with pytest.raises(InputError) as caught:
        plan(store, what, values, given)
    assert all(text in str(caught.value) for text in said), caught.value


def test_a_model_is_no_rows(store):
    make(store, toy_model)
    with pytest.raises(InputError, match="holds 'files'; name a dataset of 'items'"):
        plan(store, toy_scale, {}, {"items": ["model/33m/toy"]})


def test_a_version_is_read_once_as_one_input(store):
    make(store, toy_scale)
    ref = str(latest(store, "items").manifest.ref)
    for given in ([ref, ref], ["items", ref]):
        with pytest.raises(InputError, match=f"input items names {ref} more than once; name it once"):
            plan(store, toy_scale, {}, {"items": given})


def test_rows_of_two_versions_of_one_dataset_are_not_kept_together_but_may_be_read(store):
    items, scaled = [], []
    for rows in ({"a": 1}, {"a": 1, "b": 2}):
        items.append(str(make(store, toy_list, rows=rows).ref))
        scaled.append(str(make(store, toy_scale).ref))
    said = f"would keep the rows of scaled twice, from scaled={scaled[0]} and scaled={scaled[1]}; name one"
    with pytest.raises(InputError, match=said):
        plan(store, toy_unique, {}, {"scaled": scaled})
    assert len(plan(store, toy_gather, {}, {"items": items}).inputs["items"]) == 2
