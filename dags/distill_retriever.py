"""From triplets that a teacher scored to a distilled and evaluated retriever."""

from __future__ import annotations

from airflow.sdk import DAG, Param
from foundry_airflow.alerts import within
from foundry_airflow.forms import form
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import (
    AT_ONCE,
    DEFAULT_ARGS,
    evaluation_fields,
    evaluation_inputs,
    evaluation_tasks,
    fold_lineage,
    stages,
    start_field,
    step,
)

from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.training.params import OF_A_STAGE, OF_ALL_STAGES

DOC = """
### From `mtt/<alpha>-kd` to `model/<size>/distill`

Trains the latest `model/<size>/finetune` on what a teacher makes of each triplet, beside the labels, and scores the
result and the stages before it.

Started by hand. `build_triplets` makes the scored triplets of the levels in its `kd_alphas`.
"""

SIZE = Param("33m", type="string", enum=list(SIZES), description="size of the model to distil into")
DISTILL = form(
    "distill", "alpha", *OF_A_STAGE, *OF_ALL_STAGES, "in_batch", "n_negatives", "instruct", "pool_instruction"
)

with DAG(
    "distill_retriever",
    description="triplets scored by a teacher -> a distilled, evaluated retriever",
    schedule=None,
    max_active_runs=AT_ONCE,
    deadline=within(hours=7 * 24),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "training"],
    doc_md=DOC,
    params={"size": SIZE} | evaluation_fields() | start_field() | DISTILL.params,
) as dag:
    size = {"size": dag.param("size")}
    chosen = DISTILL.values(dag) | size
    read = pin_versions(**evaluation_inputs(), distill=(chosen, ()))
    distilled = step("distill", inputs=read["distill"], params=chosen)
    fold_lineage(evaluation_tasks(dag, read, *stages(dag, distilled)))
