"""From searches and addresses to passages."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param
from airflow.sdk.configuration import conf
from foundry_airflow.alerts import within
from foundry_airflow.forms import fields, form
from foundry_airflow.steps import DEFAULT_ARGS, default, fold_lineage, step

DOC = """
### From searches and addresses to `passages`

Asks a search provider where one is chosen, lists the PDFs that it found and those of a source, fetches them, takes
their text, removes near-duplicate documents, holds some of the rest out, cuts passages and removes near-duplicate ones.
The weekly run asks for every known address whether it changed; a run by hand does so where `refresh` is new, and
fetches only new addresses otherwise. Later steps work on parts that they have not seen; documents that vanished from
the source or from their site are withdrawn. Many stop the run, which names them; `max_withdrawn` lets them go.

Runs weekly on the source in the Airflow variable `foundry_source`, else in the option `source`, and the provider in
`foundry_search_provider`, and by hand on any others. While none is set the weekly run's tasks are skipped. Each run
starts `synthesize_pairs`, which asks an LLM, unless that is paused when `passages` are there.
"""

EMPTY = {"provider": "the Airflow variable foundry_search_provider, without which nobody is asked"}
SEARCH = form("search_web", "provider", "max_results", "crawl", "refresh", "again", prefix="search_", empty=EMPTY)
CRAWL = form("crawl", "refresh", "max_bytes", "attempts", "user_agent", "delay_s", "max_withdrawn")
TEXTS = form("extract_text", "engine", "languages", "ocr")
DOCUMENTS = form("cluster_documents", "threshold", prefix="document_")
HOLD_OUT = form("hold_out_documents", "test_fraction", "test_documents", "dev_fraction", "dev_documents", "judged")
CHUNKS = form("chunk_passages", "mode", "max_tokens", "min_tokens")
PASSAGES = form("cluster_passages", "threshold", prefix="passage_")
SOURCE = Param(
    None,
    type=["null", "string"],
    section="list_urls",
    description="http(s) URL or file of a list, one address a line, or a folder of PDFs; files and folders lie below "
    "the operator's FOUNDRY_SOURCE_ROOTS (left empty: the Airflow variable foundry_source, else [foundry] source)",
)
FORMS = (SEARCH, CRAWL, TEXTS, DOCUMENTS, HOLD_OUT, CHUNKS, PASSAGES)
USUAL = conf.get("foundry", "source", fallback="")
SOURCE_OF_RUN = f"params.source or var.value.get('foundry_source', '') or {USUAL!r}"
PROVIDER_OF_RUN = "params.search_provider or var.value.get('foundry_search_provider', '')"
ASKED_FOR = f"{{{{ {SOURCE_OF_RUN} or {PROVIDER_OF_RUN} or dag_run.run_type != 'scheduled' }}}}"
NOT_ASKED_FOR = "no source is set; set the Airflow variable foundry_source or foundry_search_provider for weekly runs"
PROVIDER = f"{{{{ {PROVIDER_OF_RUN} }}}}"
REFRESH = "{{ params.refresh or (ds if dag_run.run_type == 'scheduled' else '') }}"

with DAG(
    "corpus_refresh",
    description="PDFs of a source and of searches -> passages",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    deadline=within(hours=48),
    default_args=DEFAULT_ARGS,
    tags=["foundry", "corpus"],
    doc_md=DOC,
    params={"source": SOURCE} | fields(*FORMS),
) as dag:
    searches = step("plan_searches", only_if=PROVIDER)
    results = step("search_web", inputs={"searches": searches}, params=SEARCH.values(dag) | {"provider": PROVIDER})
    listed = {"source": f"{{{{ {SOURCE_OF_RUN} }}}}", "max_withdrawn": dag.param("max_withdrawn")}
    urls = step("list_urls", inputs={"results": results}, params=listed, only_if=ASKED_FOR, otherwise=NOT_ASKED_FOR)
    downloads = step("crawl", inputs={"urls": urls}, params=CRAWL.values(dag) | {"refresh": REFRESH})
    texts = step("extract_text", inputs={"downloads": downloads}, params=TEXTS.values(dag))
    sketches = step("sketch_documents", inputs={"texts": texts})
    same_documents = step("cluster_documents", inputs={"sketches": sketches}, params=DOCUMENTS.values(dag))
    documents = step("near_duplicate_documents", inputs={"texts": texts, "duplicates": same_documents})
    held_out = step("hold_out_documents", inputs={"documents": documents}, params=HOLD_OUT.values(dag))
    chunks = step("chunk_passages", inputs={"documents": documents, "held_out": held_out}, params=CHUNKS.values(dag))
    # Embeddings of chunks serve this DAG alone; the asset `embeddings/<model>` is that of passages.
    model = {"model": default("cluster_passages", "model")}
    embeddings = step("embed_passages", inputs={"passages": chunks}, params=model, emits=False)
    same_passages = step("cluster_passages", inputs={"embeddings": embeddings}, params=PASSAGES.values(dag) | model)
    passages = step("near_duplicate_passages", inputs={"chunks": chunks, "duplicates": same_passages})
    fold_lineage(passages)
