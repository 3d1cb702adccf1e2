"""Scores of trained retrievers on held-out queries."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetAny, Param
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, form, given, judged_with, stages, step

from pipeline_tasks.models.sizes import SIZES

DOC = """
### From `model/<size>/finetune` to `eval/<set>`

Scores every stage of a trained model, its untrained backbone, BM25 and the reference models on the queries of held-out
documents.

Starts when a model changed, and by hand for a size that you choose.
"""

SIZE = Param(
    None,
    type=["null", "string"],
    enum=[None, *SIZES],
    description="size whose latest model is scored (left empty: the model whose change started the run)",
)
EVALUATE = form("evaluate_retriever", "set_name")

with DAG(
    "evaluate_retriever",
    description="scores on held-out queries",
    schedule=AssetAny(*(Asset(f"model/{size}/finetune") for size in SIZES)),
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "evaluation"],
    doc_md=DOC,
    params={"size": SIZE} | EVALUATE.params,
) as dag:
    read = given(pairs="labelled > pairs", passages="labelled > passages", **judged_with())
    models = stages("{{ 'model/' ~ params.size ~ '/finetune' if params.size else '' }}")
    scores = step(
        "evaluate_retriever",
        inputs=read | {"models": models},
        params=EVALUATE.values(dag) | {"size": "{{ ti.xcom_pull('models')[-1].split('/')[1] }}"},
    )
    fold_lineage(scores)
