"""Pairs that others made: the general domain's sets, and files of your own."""

from __future__ import annotations

from airflow.sdk import DAG
from foundry_airflow.forms import form, form_value
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, step

from pipeline_tasks.synthesis.files.general_sets import general_sets

DOC = """
### From files and from the hub to `mtp/gd` and `mtp/own/<name>`

Reads the paper's general-domain sets where `general_source` names a folder, a bucket or `hub`, and query logs, FAQs or
judged sets of yours where `own_source` names files. What was read before is not read again.

Started by hand. `synthesize_pairs` joins `mtp/gd` by itself, and yours where its field `own` has their name; both go
through its gate. Of the worker's own files those below its `FOUNDRY_SOURCE_ROOTS` are read.
"""

GENERAL = form("read_general_pairs", "source", "sets", "most", "intents", "dev_fraction", "most_gib", prefix="general_")
GENERAL.params["general_sets"].schema |= {"examples": list(general_sets())}
OWN = form("read_pairs", "source", "name", "columns", "intent", "dev_fraction", prefix="own_")

with DAG(
    "read_pairs",
    description="pairs of the general domain and of your own files",
    schedule=None,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "synthesis"],
    doc_md=DOC,
    params=GENERAL.params | OWN.params,
) as dag:
    files = form_value("read_general_pairs", "source", "general_source", "")
    general = step("read_general_pairs", params=GENERAL.values(dag), only_if=files)
    files = form_value("read_pairs", "source", "own_source", "")
    own = step("read_pairs", params=OWN.values(dag), only_if=files)
    fold_lineage(general, own)
