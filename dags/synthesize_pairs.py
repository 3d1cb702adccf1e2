"""From passages to training pairs."""

from __future__ import annotations

from airflow.sdk import DAG, Asset
from foundry_airflow.ahead import batch_field
from foundry_airflow.alerts import within
from foundry_airflow.forms import BY_CHAT, form
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, step

DOC = """
### From `passages` to `mtp`

An LLM states, for every sampled passage, the information need that it meets under a search intent, then writes a query
and a positive passage for each need. Every answer is kept: passages that were asked about before cost nothing.
General-domain pairs join where the store has `mtp/gd`, pairs of your own where `own` names them. Copies of held-out
queries, of judged questions and of the judged sets in `sets` are refused; where they are too many, the run stops.

Starts after `corpus_refresh`, also where that found nothing new, with the parameters of the operator's file
(`FOUNDRY_PARAMETERS`) or the defaults; and by hand. Paused, as it is created, it misses a refresh for good: start it by
hand. The endpoint is the worker's `OPENAI_BASE_URL`; the pool `llm`
limits how many steps ask it at once, `max_run_usd` and `max_run_tokens` what each of the two steps may spend. With
`batch` both buy their answers by the endpoint's batch API first, at half the price, and sleep meanwhile, for a day at
most each.
"""

NEEDS = form("write_needs", "sample_rate", "rates", "intents", "intents_per_passage", "splits")
OWN = form("combine_pairs", "own", "per_intent", "balance")
GATE = form("decontaminate_pairs", "sets", "max_contaminated")
LLM = form("write_needs", BY_CHAT[0], "api", "writer", *BY_CHAT[1:3], "checks", *BY_CHAT[3:])
BATCH = batch_field("write_needs")

with DAG(
    "synthesize_pairs",
    description="passages -> query and positive pairs, by an LLM",
    schedule=[Asset("passages")],
    max_active_runs=1,
    deadline=within(hours=96),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "synthesis"],
    doc_md=DOC,
    params=NEEDS.params | LLM.params | BATCH | OWN.params | GATE.params,
) as dag:
    batch, asked = dag.param("batch"), NEEDS.values(dag) | LLM.values(dag)
    read = pin_versions(passages="passages")
    needs = step("write_needs", inputs=read, params=asked, ahead=batch)
    pairs = step("write_pairs", inputs={"needs": needs}, params=LLM.values(dag), ahead=batch)
    combined = step("combine_pairs", inputs={"dm": pairs, **read}, params=OWN.values(dag))
    mtp = step("decontaminate_pairs", inputs={"pairs": combined}, params=GATE.values(dag))
    fold_lineage(mtp)
