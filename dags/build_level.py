"""One more level of difficulty, from rankings and labels that are there."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, Param
from foundry_airflow.forms import LEVEL, form
from foundry_airflow.inputs import pin_versions
from foundry_airflow.partitions import RUN_KEY, PartitionOperator, keyed, level_asked
from foundry_airflow.steps import AT_ONCE, DEFAULT_ARGS, fold_lineage, mining_inputs, step

DOC = """
### `mtt/<alpha>` for one alpha

The level is the run's partition key (by REST: `"partition_key": "0.85"`) or the parameter `alpha`. Rankings and labels
are those of the latest `labelled`: nothing is encoded or searched, and a build that is there is not made again. Several
levels are built side by side. Every run is a partition of the asset `mtt`.
"""

MINE = form("mine_negatives", "n_negatives")
ALPHA = Param("0.75", **LEVEL, description="level, where the run has no key")

with DAG(
    "build_level",
    description="labelled -> hard negatives of one level",
    schedule=keyed(),
    is_paused_upon_creation=False,  # only a request starts it, and would wait without end
    max_active_runs=AT_ONCE,
    default_args=DEFAULT_ARGS | {"pre_execute": level_asked},
    tags=["foundry", "curation"],
    doc_md=DOC,
    params={"alpha": ALPHA} | MINE.params,
) as dag:
    read = pin_versions(**mining_inputs())
    triplets = step("mine_negatives", inputs=read, params=MINE.values(dag) | {"alpha": RUN_KEY}, emits=False)
    emitted = PartitionOperator(task_id="emit", asset=Asset("mtt"), key=RUN_KEY, version=triplets)
    fold_lineage(emitted.output)
