"""Levels of difficulty, and other lists that a form gives."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError


def test_a_level_that_is_scored_is_mined_in_the_same_run(bag):
    from foundry_airflow.inputs import EachOperator

    dag = bag.dags["build_triplets"]
    assert [one._name for one in dag.get_task("mine_negatives_each").items] == ["alphas", "kd_alphas"]
    made = {}
    for name, items in (
        ("one list", ["0.65", "0.75"]),
        ("two", [["0.65"], ["0.95", "0.65"]]),
        ("none", [["0.65"], None]),
    ):
        made[name] = [one["alpha"] for one in EachOperator(task_id="each", name="alpha", items=items).execute({})]
    assert made == {"one list": ["0.65", "0.75"], "two": ["0.65", "0.95"], "none": ["0.65"]}
    assert EachOperator(task_id="each", name="alpha", items=None).execute({}) == []


def test_a_list_offers_all_that_it_may_hold(bag):
    views = bag.dags["train_retriever"].params.get_param("pretrain_views")
    assert views.schema["examples"] == ["source", "written", "restated"]


@pytest.mark.parametrize("level", ["0", "0.0", ".65", "0.650", "1", "1.01", "-0.5", "0.6.5", "x"])
def test_a_level_is_above_nothing_and_has_one_spelling(bag, level):
    alpha = bag.dags["build_level"].params.get_param("alpha")
    assert [alpha.resolve(good) for good in ("0.65", "1.0")] == ["0.65", "1.0"]
    with pytest.raises(ParamValidationError):
        alpha.resolve(level)


@pytest.mark.parametrize("key", ["0", ".85", "0.850", "8.5e-1", "1", "0.85 ", "0.85\n", "../x", ""])
def test_a_key_that_is_spelled_like_no_level_is_refused_before_anything_is_read(bag, key):
    dag = bag.dags["build_level"]
    for task in dag.roots:
        for good in (None, "0.85", "1.0"):
            task._pre_execute_hook({"dag": dag, "dag_run": SimpleNamespace(conf={}, partition_key=good)})
        with pytest.raises(AirflowFailException, match="is no level: start a run with one above 0"):
            task._pre_execute_hook({"dag": dag, "dag_run": SimpleNamespace(conf={}, partition_key=key)})


def test_two_parameters_never_share_a_field(root):
    from foundry_airflow.forms import Form

    for path in sorted((root / "dags").glob("*.py")):
        told: dict[str, str] = {}
        for form in runpy.run_path(str(path)).values():
            for name, field in form.params.items() if isinstance(form, Form) else ():
                assert told.setdefault(name, field.description) == field.description, f"{path.stem}.{name}"


def test_what_empty_means_is_said_where_it_means_something(bag):
    fields = [dag.params.get_param(name) for dag in bag.dags.values() for name in dag.params]
    described = [field.description or field.schema.get("description", "") for field in fields]
    assert not [text for text in described if "(left empty: )" in text or "{}" in text]


def test_how_deep_a_ranking_goes_holds_for_all_of_them(bag):
    dag = bag.dags["build_triplets"]
    for name in ("rank_bm25", "fuse_rankings"):
        assert dag.get_task(name).values["depth"]._name == "depth"


def test_a_model_that_training_began_at_is_scored_beside_the_result(bag):
    for name, task in (("adapt_to_corpus", "evaluate_retriever"), ("follow_instructions", "evaluate_instructions")):
        models = bag.dags[name].get_task(task).inputs["models"]
        assert (models[0].operator.task_id, models[0].key) == ("versions", f"{name}.init")
