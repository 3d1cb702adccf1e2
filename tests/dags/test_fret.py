"""One of four scorers compares the passages, by what the form names."""

from __future__ import annotations

import pytest
from foundry_airflow.operators import SKIPS

from pipeline_tasks.models.registry import get

SCORERS = ("relabel", "score_passages", "grade_passages", "rerank_passages")


@pytest.mark.parametrize(
    ("grader", "endpoint_scorer", "scorer", "reranker", "chosen"),
    [
        (None, None, None, None, "relabel"),
        ("", "", "", "", "relabel"),
        (None, None, None, "ranker", "rerank_passages"),
        (None, None, "./causal", "ranker", "relabel"),
        (None, "writer-1", None, None, "score_passages"),
        (None, "writer-1", "./causal", "ranker", "score_passages"),
        ("writer-2", None, None, "ranker", "grade_passages"),
        ("writer-2", None, "./causal", None, "grade_passages"),
        ("writer-2", "writer-1", None, None, "grade_passages"),
    ],
)
def test_one_scorer_compares_the_passages(bag, grader, endpoint_scorer, scorer, reranker, chosen):
    dag = bag.dags["fret"]
    params = {"grader": grader, "endpoint_scorer": endpoint_scorer, "scorer": scorer, "reranker": reranker}
    asked = {name: dag.get_task(name).only_if for name in SCORERS}
    rendered = {n: dag.get_template_env().from_string(text).render(params=params) for n, text in asked.items()}
    assert [name for name, said in rendered.items() if said not in SKIPS] == [chosen]


def test_the_form_as_it_comes_names_a_scorer_that_is_here(bag):
    spec = get(bag.dags["fret"].params["reranker"])
    assert spec.role == "reranker" and spec.offline
