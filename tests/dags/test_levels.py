"""Levels of difficulty, and other lists that a form gives."""

from __future__ import annotations


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
