"""From passages to triplets whose tasks, queries and positives an LLM chose."""

from __future__ import annotations

from airflow.sdk import DAG, Param
from foundry_airflow.ahead import batch_field
from foundry_airflow.alerts import within
from foundry_airflow.forms import fields, form, form_value
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import DEFAULT_ARGS, default, fold_lineage, step

from pipeline_tasks.core.settings import settings

DOC = """
### From `passages` to `mtt/fret`

An LLM writes a task and a query for every sampled passage; copies of what models are evaluated with are refused. Of the
passages that `model` finds nearest to a query with its task, another LLM says which is the best: that one becomes the
positive, whether the query was written for it or not.

Started by hand, after `corpus_refresh`. The endpoint is the worker's `OPENAI_BASE_URL`. Its model `grader` gives
grades; where that is left empty, its model `endpoint_scorer` gives likelihoods; where that is empty too, a causal model
does on the worker, if the form names a `scorer`, else the `reranker` scores query and passage together. A small causal
model is no judge: look at what it changed (`SELECT * FROM relabelled WHERE source_rank > 1`) before you train on it.
`train_retriever` takes the triplets with others where its field `triplets_from` has `mtt/fret`.
"""

WRITE = form("write_tasks_and_queries", "sample_rate", "splits", "llm", "api", "checks")
LLM = form("write_tasks_and_queries", "context_tokens", "json_schema", "temperature")
BUDGET = form("write_tasks_and_queries", "concurrency", "max_run_usd", "max_run_tokens")
GATE = form("decontaminate_tasks", "sets", "max_contaminated")
NEAREST = form("nearest_passages", "model", "depth")
RELABEL = form("relabel", "scorer", "precision", "batch_size")
SHOWN = form("relabel", "passage_chars", "k")
TOP = form("score_passages", "top_logprobs")
RERANK = form("rerank_passages", "margin", "max_length")
UNIFY = form("unify", "negatives", "n_negatives", "builds", "per_source", "per_task", "format")
FORMS = (WRITE, LLM, BUDGET, GATE, NEAREST, RELABEL, SHOWN, TOP, RERANK, UNIFY)
HAS_SCORER = settings().profile == "hub" or "/" in default("relabel", "scorer")  # offline only a folder of one's own
SCORERS = {
    "grader": ("grade_passages", None, "model of the endpoint that grades"),
    "endpoint_scorer": ("score_passages", None, "model of the endpoint that gives likelihoods; it has to echo"),
    "reranker": ("rerank_passages", None if HAS_SCORER else "ms-marco-minilm-l12", "reads query and passage together"),
}
SCORER_FIELDS = {
    name: Param(usual, type=["null", "string"], section=section, description=f"{does} (left empty: none)")
    for name, (section, usual, does) in SCORERS.items()
}

with DAG(
    "fret",
    description="passages -> triplets that an LLM chose, FRet",
    schedule=None,
    max_active_runs=1,
    deadline=within(hours=96),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "synthesis"],
    doc_md=DOC,
    params=SCORER_FIELDS | batch_field("write_tasks_and_queries") | fields(*FORMS),
) as dag:
    read = pin_versions(passages="passages")
    batch, paid = dag.param("batch"), LLM.values(dag) | BUDGET.values(dag)
    written = step("write_tasks_and_queries", inputs=read, params=WRITE.values(dag) | paid, ahead=batch)
    pairs = step("decontaminate_tasks", inputs={"pairs": written}, params=GATE.values(dag))
    encoder, asked = {"model": form_value("nearest_passages", "model")}, {"pairs": pairs, "passages": read["passages"]}
    embedded = step("embed_passages", inputs=read, params=encoder, emits=False)
    nearest = step("nearest_passages", inputs=asked | {"embeddings": embedded}, params=NEAREST.values(dag))
    compared, shown = asked | {"nearest": nearest}, encoder | SHOWN.values(dag)
    here = "{{ not (params.grader or params.endpoint_scorer) and (params.scorer or not params.reranker) or '' }}"
    there = "{{ not params.grader and params.endpoint_scorer or '' }}"
    scored = step("relabel", inputs=compared, params=shown | RELABEL.values(dag), only_if=here)
    llm = {"llm": dag.param("endpoint_scorer")} | TOP.values(dag) | BUDGET.values(dag)
    by_likelihood = step("score_passages", inputs=compared, params=shown | llm, only_if=there)
    grading, grades = encoder | paid | {"llm": dag.param("grader")}, "{{ params.grader or '' }}"
    graded = step("grade_passages", inputs=compared, params=grading, only_if=grades, ahead=batch)
    ranker = encoder | {"reranker": dag.param("reranker")} | RERANK.values(dag)
    alone = "{{ not (params.grader or params.endpoint_scorer or params.scorer) and params.reranker or '' }}"
    reranked = step("rerank_passages", inputs=compared, params=ranker, only_if=alone)
    triplets = step("unify", inputs={"relabelled": [scored, by_likelihood, graded, reranked]}, params=UNIFY.values(dag))
    fold_lineage(triplets)
