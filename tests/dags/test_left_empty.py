"""A field that is left empty has the value of the operator's file, and the form says which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.param import DagParam
from foundry_airflow.backends import parameters_of
from foundry_airflow.operators import SKIPS
from foundry_airflow.outline import read_dag

from pipeline_tasks.core.registry import get_step

OF_KIND = {"string": "marked", "integer": 7, "number": 0.5, "array": ["marked"], "object": {}}
OF_ONE_RUN = {"model", "set_name", "backbone"}
"""Parameters that mean one thing in all steps of a run; others that steps share leave each step its own default."""
SAYS_MORE = {"search_provider", "source", "judge", "grader", "endpoint_scorer", "reranker"}
"""Fields whose description says what stands in for them beside the file, or that nothing does."""
DAGS = ("adapt_to_corpus", "build_level", "build_triplets", "corpus_refresh", "distill_retriever", "evaluate_retriever",
        "follow_instructions", "fret", "read_pairs", "synthesize_pairs", "train_retriever")  # fmt: skip


def uses(dag: DAG) -> Iterator[tuple[str, str, str, Any]]:
    """Field, step, parameter and value, wherever a field alone or a template with it is the value."""
    for task in dag.tasks:
        given = getattr(task, "partial_kwargs", vars(task))
        for parameter, value in (given.get("values") or {}).items():
            for field in dag.params:
                named = isinstance(value, DagParam) and value._name == field
                if named or (isinstance(value, str) and f"params.{field} " in value):
                    yield field, given["step"], parameter, value


def marked(dag: DAG) -> dict[tuple[str, str], Any]:
    """Step and parameter of a field -> another value than what it has."""
    found = {}
    for field, step, parameter, _ in uses(dag):
        schema, value = dag.params.get_param(field).schema, dag.params[field]
        if schema.get("section") != step or not (value is None or isinstance(value, bool)):
            continue
        another = OF_KIND[schema["type"][-1]] if value is None else not value
        found[step, parameter] = schema.get("enum", [another])[-1]
    return found


def rendered(dag: DAG, value: Any, fields: dict[str, Any]) -> Any:
    if isinstance(value, DagParam):
        return value.resolve({"params": fields})
    variables = SimpleNamespace(value=SimpleNamespace(get=lambda name, default=None: default))
    run = SimpleNamespace(run_type="manual", partition_key=None)
    return dag.get_template_env().from_string(value).render(params=fields, var=variables, dag_run=run, ds="")


@pytest.mark.parametrize("name", DAGS)
def test_what_the_form_says_of_a_field_left_empty_is_what_its_steps_get(told, root, name):
    of_file = marked(read_dag(root / "dags", name))
    assert of_file
    tables: dict[str, str] = {}
    for (step, parameter), value in of_file.items():
        tables[step] = f"{tables.get(step, '')}{parameter} = {json.dumps(value)}\n"
    told("".join(f"[{step}]\n{table}" for step, table in tables.items()))
    dag = read_dag(root / "dags", name)
    fields = {field: dag.params[field] for field in dag.params}
    for field, step, parameter, value in uses(dag):
        shown = dag.params.get_param(field)
        section = shown.schema.get("section", "")
        expected = of_file.get((section, parameter))
        if expected in (None, {}) or (step != section and parameter not in OF_ONE_RUN):
            continue
        got = parameters_of(get_step(step), {parameter: rendered(dag, value, fields)})
        assert got[parameter] == expected, f"{field} in {step}"
        means = ", ".join(expected) if isinstance(expected, list) else str(expected)
        if shown.value is None and field not in SAYS_MORE:
            assert shown.description.endswith(f"(left empty: {means})"), field


@pytest.mark.parametrize("source", ["general_source", "own_source"])
def test_files_are_read_where_the_operators_file_names_them(told, root, source):
    step = {"general_source": "read_general_pairs", "own_source": "read_pairs"}[source]
    for file, made in (("", False), (f'[{step}]\nsource = "hub"\n', True)):
        told(file)
        dag = read_dag(root / "dags", "read_pairs")
        only_if = rendered(dag, dag.get_task(step).only_if, dict.fromkeys(dag.params))
        assert (only_if not in SKIPS) is made


def test_all_steps_of_fret_are_of_the_encoder_that_its_form_names(told, root):
    told('[nearest_passages]\nmodel = "all-minilm-l6-v2"\n')
    dag = read_dag(root / "dags", "fret")
    encoders = {
        task.step: rendered(dag, task.values["model"], {"model": None})
        for task in dag.tasks
        if "model" in (getattr(task, "values", None) or {})
    }
    assert len(encoders) == 6 and {*encoders.values()} - {None} == {"all-minilm-l6-v2"}


@pytest.mark.parametrize("name", ["adapt_to_corpus", "follow_instructions", "train_retriever"])
def test_a_backbone_left_empty_is_the_sizes_in_all_steps_whatever_another_steps_table_says(told, root, name):
    section = read_dag(root / "dags", name).params.get_param("backbone").schema["section"]
    others = {step for field, step, *_ in uses(read_dag(root / "dags", name)) if field == "backbone"} - {section}
    assert others
    told("".join(f'[{step}]\nbackbone = "gte-base"\n' for step in others))
    dag = read_dag(root / "dags", name)
    for field, step, parameter, value in uses(dag):
        if field == "backbone":
            got = parameters_of(get_step(step), {parameter: rendered(dag, value, {"backbone": None})})
            assert not got.get("backbone"), step
            of_size, as_got = (get_step(step).parse({"size": "596m"} | more) for more in ({}, got))
            assert as_got.identity() == of_size.identity(), f"{step}: another version than without the field"


@pytest.mark.parametrize("table", ["", "[evaluate_retriever]", "[default]"])
@pytest.mark.parametrize("name", ["evaluate_retriever", "distill_retriever"])
def test_models_are_compared_with_what_they_began_as_whatever_the_operators_file_says(told, root, name, table):
    told(f'{table}\nbackbone = "gte-base"\n' if table else "")
    dag = read_dag(root / "dags", name)
    start = dag.get_task("models").named["backbone"]
    assert [rendered(dag, start, {"backbone": chosen}) for chosen in (None, "minilm")] == [None, "minilm"]
    assert dag.params.get_param("backbone").description.endswith("(left empty: what the model began as)")
