"""Scores of trained retrievers on judged queries."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetAny, Param
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import (
    DEFAULT_ARGS,
    evaluation_fields,
    evaluation_inputs,
    evaluation_tasks,
    fold_lineage,
    stages,
    start_field,
)

from pipeline_tasks.models.sizes import SIZES

DOC = """
### From `model/<size>/finetune` to `eval/<set>`

Scores every stage of a trained model, its untrained start, BM25 and the reference models on a judged set: the queries
of held-out documents, or the questions that somebody wrote for the domain.

Starts when a training made or found a model, and by hand for a size that you choose. Paused, as it is created, it
misses a training for good: start it by hand.
"""

SIZE = Param(
    None,
    type=["null", "string"],
    enum=[None, *SIZES],
    description="size whose latest model is scored (left empty: the model whose change started the run)",
)

with DAG(
    "evaluate_retriever",
    description="scores on judged queries",
    schedule=AssetAny(*(Asset(f"model/{size}/finetune") for size in SIZES)),
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "evaluation"],
    doc_md=DOC,
    params={"size": SIZE} | evaluation_fields() | start_field(),
) as dag:
    read = pin_versions(**evaluation_inputs())
    models, compared = stages(dag, "{{ 'model/' ~ params.size ~ '/finetune' if params.size else '' }}")
    fold_lineage(evaluation_tasks(dag, read, models, compared, emits=True))
