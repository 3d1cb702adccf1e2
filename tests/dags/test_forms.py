"""What a form shows is what its run does."""

from __future__ import annotations

import pytest
from foundry_airflow.forms import form
from foundry_airflow.operators import PlannedOperator

from pipeline_tasks.core.registry import get_step


def test_a_switch_begins_as_the_steps_default_and_a_yes_or_no_without_one_is_chosen_from_a_list(bag):
    switches = set()
    for dag in bag.dags.values():
        for name in dag.params:
            field = dag.params.get_param(name)
            if "boolean" in (kind := field.schema["type"]):
                assert (kind, type(field.value)) == ("boolean", bool), f"{dag.dag_id}.{name}: null looks like off"
                switches |= {(dag.dag_id, name, field.value)}
    assert switches > {
        ("train_retriever", "finetune_instruct", True),
        ("train_retriever", "finetune_pool_instruction", True),
        ("train_retriever", "pretrain_causal", False),
        ("distill_retriever", "instruct", True),
        ("corpus_refresh", "judged", True),
        ("corpus_refresh", "ocr", False),
        ("follow_instructions", "plain_rows", True),
    }


def test_a_switch_begins_as_the_operators_file_says(told):
    told("[finetune]\ninstruct = false\n")
    assert form("finetune", "instruct").params["instruct"].value is False


@pytest.mark.parametrize(
    ("chosen", "asked"), [(None, (True, False)), ("false", (False, False)), ("true", (True, True))]
)
def test_a_field_of_several_steps_leaves_each_its_own_default_unless_it_is_chosen(told, chosen, asked):
    told("[write_pairs]\njson_schema = false\n")
    field = form("write_needs", "json_schema").params["json_schema"]
    assert (field.value, field.schema["enum"]) == (None, [None, "true", "false"])
    assert field.description.endswith("(left empty: true)")
    steps = ("write_needs", "write_pairs")
    values = {"json_schema": field.resolve(chosen), "llm": "a model"}
    made = [PlannedOperator(task_id=step, step=step, values=values).parameters() for step in steps]
    assert tuple(get_step(step).parse(given).json_schema for step, given in zip(steps, made, strict=True)) == asked


def test_what_is_left_empty_may_be_no(told):
    told("[write_needs]\njson_schema = false\n")
    assert form("write_needs", "json_schema").params["json_schema"].description.endswith("(left empty: false)")


@pytest.mark.parametrize(("step", "name"), [("extract_text", "languages"), ("evaluate_retriever", "systems")])
def test_a_list_takes_more_than_its_default(step, name):
    schema = form(step, name).params[name].schema
    assert "examples" not in schema and schema["items"] == {"type": "string"}


def test_what_may_be_chosen_is_all_that_there_is_also_where_the_operator_chose_some(told):
    told('[write_needs]\nintents = ["qa"]\n[extract_queries]\nquery_source = ["titles"]\n')
    intents = form("write_needs", "intents").params["intents"]
    assert {"qa", "nli", "sts"} <= set(intents.schema["examples"])
    assert intents.description.endswith("(left empty: qa)")
    assert "phrases" in form("extract_queries", "query_source").params["query_source"].schema["examples"]
