"""What keeps a store small and its lineage at hand."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage
from foundry_airflow.upkeep import collect_garbage, put_together

DOC = """
### Garbage and lineage, weekly

Says in its log what no kept version needs, in files and bytes; with `really` it drops that. By default every version
stays, and only leftovers go. Nothing younger than a day goes, nothing that a running step needs, and no answer that was
paid for: it is safe beside steps.

In a bucket it then says how many small parts could lie in packs of 64 MiB, of which thousands are read with a few
requests; with `really` it puts them there. Last the lineage database is brought up to date.
"""

KEEP = Param(None, type=["null", "integer"], minimum=1, description="versions of a dataset that stay (empty: all)")
DAYS = Param(None, type=["null", "integer"], minimum=1, description="days that every version stays (empty: for ever)")
REALLY = Param(False, type="boolean", description="do what was found; otherwise only say what that would be")

with DAG(
    "maintenance",
    description="says, or drops, what no kept version needs",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "upkeep"],
    doc_md=DOC,
    params={"keep": KEEP, "keep_days": DAYS, "really": REALLY},
) as dag:
    dropped = collect_garbage(keep=dag.param("keep"), keep_days=dag.param("keep_days"), really=dag.param("really"))
    packed = put_together(really=dag.param("really"))
    dropped >> packed
    fold_lineage(packed)
