"""Where the source of corpus_refresh comes from: its form, Airflow's variable, the configuration, or nowhere."""

from __future__ import annotations

import runpy
from copy import copy
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from foundry_airflow.operators import SKIPS
from foundry_airflow.outline import outline

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import SEARCH_RESULTS
from tests.stores import put, rows

USUAL = "https://example.org/usual's.txt"


def rendered(dag: DAG, template: str, run_type: str, params: dict[str, str], variables: dict[str, str]) -> str:
    context: dict[str, Any] = {
        "params": {"source": None, "search_provider": None} | params,
        "var": SimpleNamespace(value=variables),
        "dag_run": SimpleNamespace(run_type=run_type),
    }
    return dag.get_template_env().from_string(template).render(context)


@pytest.mark.parametrize(
    ("run_type", "params", "variables", "does"),
    [
        ("scheduled", {}, {}, False),
        ("scheduled", {}, {"foundry_source": "/pdfs"}, True),
        ("scheduled", {}, {"foundry_search_provider": "brave"}, True),
        ("manual", {}, {}, True),
        ("manual", {"source": "/pdfs"}, {}, True),
    ],
)
def test_a_weekly_refresh_that_nobody_asked_for_is_skipped(bag, run_type, params, variables, does):
    task = bag.dags["corpus_refresh"].get_task("list_urls")
    found = rendered(task.dag, task.only_if, run_type, params, variables)
    assert (found not in SKIPS) is does, found
    assert "set the Airflow variable foundry_source" in task.otherwise


@pytest.mark.parametrize(
    ("params", "variables", "source"),
    [
        ({}, {}, USUAL),
        ({}, {"foundry_source": ""}, USUAL),
        ({}, {"foundry_source": "/of/the/page"}, "/of/the/page"),
        ({"source": "/of/the/form"}, {"foundry_source": "/of/the/page"}, "/of/the/form"),
    ],
)
def test_the_form_is_before_the_variable_and_the_variable_before_the_configuration(
    root, monkeypatch, params, variables, source
):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__SOURCE", USUAL)
    dag = runpy.run_path(str(root / "dags" / "corpus_refresh.py"))["dag"]
    task = dag.get_task("list_urls")
    assert rendered(dag, task.values["source"], "scheduled", params, variables) == source
    assert rendered(dag, task.only_if, "scheduled", params, variables) not in SKIPS


def test_what_searches_found_stays_where_a_later_run_asks_nobody(bag, store_folder, tmp_path, monkeypatch):
    dag, store = bag.dags["corpus_refresh"], LocalStore(store_folder)
    (tmp_path / "urls.txt").write_text("https://example.org/listed.pdf\n")
    monkeypatch.setenv("FOUNDRY_SOURCE_ROOTS", str(tmp_path))
    task = copy(dag.get_task("list_urls"))
    task.values, task.outlets = {"source": str(tmp_path / "urls.txt")}, []
    result = {"result_id": "r", "url": "https://example.org/found.pdf", "provider": "brave"}
    found = put(store, SEARCH_RESULTS, [result])
    for task.inputs in ({"results": str(found)}, {"results": None}):
        task.execute({"outlet_events": {}})
        listed = [row["url"] for row in rows(store, "urls")]
        assert sorted(listed) == ["https://example.org/found.pdf", "https://example.org/listed.pdf"], task.inputs
    told = outline(dag, {"source": str(tmp_path / "urls.txt")})
    assert told["steps"][0]["step"] == "list_urls" and "results" not in told["steps"][0]["inputs"], "the latest are"
