"""From passages to an embedder that knows their terms, without labels and, unless told, without an LLM."""

from __future__ import annotations

from airflow.sdk import DAG, Param
from foundry_airflow.ahead import batch_field
from foundry_airflow.alerts import within
from foundry_airflow.forms import BY_CHAT, fields, form, form_value
from foundry_airflow.inputs import pin_versions
from foundry_airflow.refresh import RefreshOperator, source_field
from foundry_airflow.steps import DEFAULT_ARGS, default, evaluation_fields, evaluation_tasks, fold_lineage, step

from pipeline_tasks.models.sizes import SIZES
from pipeline_tasks.training.params import OF_A_STAGE, OF_ALL_STAGES

DOC = """
### From documents or `passages` to `model/<size>/corpus`

Where a `source` is given, `corpus_refresh` runs on it first. Takes queries from the passages' own words, ranks the
passages for each by BM25, draws short lists from the rankings and trains an embedder to score a list as BM25 does.
Nothing is sent out, but new `passages` start `synthesize_pairs` too, unless paused. Where `query_source` is `events`
alone, the worker's LLM tells each sampled passage's main event and asks about it; a copy of evaluation data is refused.

Beside the adapted embedder, BM25, the embedder as it came and the fusion of either with BM25 are scored: on queries of
held-out documents, which are in the passages' own words too, or on the domain's questions. Started by hand. Another
alpha pays for training alone, other intervals for lists and training.
"""

SIZE = Param("22m", type="string", enum=list(SIZES), description="size of the embedder: its usual values")
OBJECTIVE, LEAD = default("adapt_to_corpus", "objective"), f"(params.lead or {default('sample_rank_lists', 'lead')!r})"
LIST_NET = OBJECTIVE if isinstance(OBJECTIVE, dict) and OBJECTIVE.get("name") == "list_net" else {}
ALPHA = Param(float(LIST_NET.get("alpha", 1)), type="number", exclusiveMinimum=0, section="adapt_to_corpus",
              description="BM25 scores are divided by it in ListNet's target: the smaller, the more the first passages "
              "count")  # fmt: skip
QUERIES = form("extract_queries", "query_source", "per_passage")
QUERIES.params["query_source"].schema["examples"].append("events")
BY_LLM, OFFLINE = (f"{{{{ params.query_source {how} ['events'] }}}}" for how in ("==", "!="))
LLM = form("extract_events", *BY_CHAT, names={"temperature": "llm_temperature"})
EVENTS = form("extract_events", "sample_rate", "splits")
GATE = form("decontaminate_event_queries", "sets", "passages", "max_contaminated")
LISTS = form("sample_rank_lists", "lead", "k", "m", "strategy", "by", "first", "skip", "n_lists")
OWN = ", and info_nce where lead is own" if OBJECTIVE == "list_net" else ""
MEANS = {"objective": f"list_net{OWN}"} if OWN or LIST_NET else {}
ADAPT = form("adapt_to_corpus", "backbone", "start_from", *OF_A_STAGE, *OF_ALL_STAGES, empty=MEANS)
FORMS = QUERIES, EVENTS, LLM, GATE, LISTS, ADAPT
USUAL = f"('info_nce' if {LEAD} == 'own' else 'list_net')" if OWN else repr("list_net" if LIST_NET else OBJECTIVE)
LOSS = f"""{{% set loss = params.objective or {USUAL} %}}{{% if loss == 'list_net' %}}\
{{{{ {{"name": loss, "alpha": params.alpha}} | tojson }}}}{{% elif loss is string %}}{{{{ loss }}}}{{% endif %}}"""
K, D = default("sample_rank_lists", "k"), default("rank_bm25", "depth")
DEPTH = f"{{{{ params.k or [{K!r} | int, {D!r} | int] | max }}}}"
MEASURES = ["ndcg@10", "map@10", "hit@1", "hit@4", "hit@10"]
SYSTEMS = ["bm25", *(f"rrf(bm25,{{{{ params.size }}}}/{system},k=40)" for system in ("untrained", "corpus"))]

with DAG(
    "adapt_to_corpus",
    description="documents or passages -> an embedder adapted to them by keyword rankings",
    schedule=None,
    max_active_runs=1,
    deadline=within(hours=48),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "training"],
    doc_md=DOC,
    params={"size": SIZE, "alpha": ALPHA, "set_name": evaluation_fields()["set_name"]}
    | (source_field("list_urls") | batch_field("extract_events") | fields(*FORMS)),
) as dag:
    refreshed = RefreshOperator(task_id="refresh", source=dag.param("source"))
    size, batch, writer = {"size": dag.param("size")}, dag.param("batch"), {"api": "chat"} | LLM.values(dag)
    chosen = ADAPT.values(dag) | size | {"objective": LOSS, "in_batch": f"{{{{ {LEAD} == 'own' }}}}"}
    passages = pin_versions(refreshed, passages="passages", adapt_to_corpus=(chosen, ("lists", "queries")))
    start_inputs = passages.pop("adapt_to_corpus")
    extracted = step("extract_queries", inputs=passages, params=QUERIES.values(dag), only_if=OFFLINE)
    events = step("extract_events", inputs=passages, params=writer | EVENTS.values(dag), only_if=BY_LLM, ahead=batch)
    written = step("write_event_queries", inputs={"events": events}, params=writer, only_if=BY_LLM, ahead=batch)
    gate = step("decontaminate_event_queries", inputs={"pairs": written}, params=GATE.values(dag), only_if=BY_LLM)
    read, depth = passages | {"pairs": [extracted, gate]}, {"depth": DEPTH, "k1": 1.2}
    ranked = step("rank_bm25", inputs=read | {"positives": read["pairs"]}, params=depth, emits=False)
    lists = step("sample_rank_lists", inputs=read | {"rankings": ranked}, params=LISTS.values(dag))
    adapted = step("adapt_to_corpus", inputs=start_inputs | {"lists": lists, "queries": read["pairs"]}, params=chosen)
    compared = size | {"backbone": form_value("adapt_to_corpus", "backbone"), "systems": SYSTEMS, "measures": MEASURES}
    fold_lineage(evaluation_tasks(dag, read | {"embeddings": []}, [start_inputs["init"], adapted], compared))
