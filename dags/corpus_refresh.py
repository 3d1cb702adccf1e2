"""From addresses to passages."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param
from foundry_airflow.steps import DEFAULT_ARGS, default, fold_lineage, form, step

DOC = """
### From addresses to `passages`

Lists the PDFs of a source, fetches them, takes their text, removes near-duplicate documents, cuts passages and removes
near-duplicate passages. A refresh fetches only addresses that are new, and every later step works only on parts that it
has not seen; documents that vanished from the source are withdrawn.

Runs weekly on the source in the Airflow variable `foundry_source`, and by hand on any other.
"""

CRAWL = form("crawl", "refresh", "max_bytes", "attempts")
DOCUMENTS = form("near_duplicate_documents", "threshold", prefix="document_")
CHUNKS = form("chunk_passages", "max_tokens", "min_tokens", "test_fraction", "dev_fraction")
PASSAGES = form("cluster_passages", "threshold", prefix="passage_")
SOURCE = Param(
    None,
    type=["null", "string"],
    section="list_urls",
    description="http(s) URL or file of a list, one address a line, or a folder of PDFs (left empty: the Airflow "
    "variable foundry_source)",
)

with DAG(
    "corpus_refresh",
    description="PDFs of a source -> passages",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    tags=["foundry", "corpus"],
    doc_md=DOC,
    params={"source": SOURCE} | CRAWL.params | DOCUMENTS.params | CHUNKS.params | PASSAGES.params,
) as dag:
    urls = step("list_urls", params={"source": "{{ params.source or var.value.get('foundry_source', '') }}"})
    downloads = step("crawl", inputs={"urls": urls}, params=CRAWL.values(dag))
    texts = step("extract_text", inputs={"downloads": downloads})
    documents = step("near_duplicate_documents", inputs={"texts": texts}, params=DOCUMENTS.values(dag))
    chunks = step("chunk_passages", inputs={"documents": documents}, params=CHUNKS.values(dag))
    # Embeddings of chunks serve this DAG alone; the asset `embeddings/<model>` is that of passages.
    model = default("cluster_passages", "model")
    embeddings = step("embed_passages", inputs={"passages": chunks}, params={"model": model}, emits=False)
    duplicates = step(
        "cluster_passages", inputs={"embeddings": embeddings}, params=PASSAGES.values(dag) | {"model": model}
    )
    passages = step("near_duplicate_passages", inputs={"chunks": chunks, "duplicates": duplicates})
    fold_lineage(passages)
