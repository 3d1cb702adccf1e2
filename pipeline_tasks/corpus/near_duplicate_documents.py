"""The texts without near-duplicate documents, as `cluster_documents` found them; identified first, removed after."""

from __future__ import annotations

import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, NoParams, step
from pipeline_tasks.datasets import DOCUMENT_CLUSTERS, DOCUMENTS


@step(
    reads={"texts": From(DOCUMENTS, "texts"), "duplicates": From(DOCUMENT_CLUSTERS, "duplicates/documents")},
    writes=DOCUMENTS,
    kind="reduce",
    dataset="documents",
    version="2",
    keeps=("texts",),
)
def near_duplicate_documents(inputs: Inputs, params: NoParams, run: Run) -> None:
    """Remove every document that another represents; a reject ``near_duplicate_document`` names it and the Jaccard.

    Raises:
        InputError: the clusters are of other documents.
    """
    texts = inputs["texts"].table(["doc_id", "url"])
    found = inputs["duplicates"].table()
    if not texts["doc_id"].equals(found["doc_id"]):
        raise InputError("the clusters are not of these texts; run sketch_documents and cluster_documents again")
    at = pc.index_in(found["representative_id"], texts["doc_id"].combine_chunks())
    joined = found.append_column("url", texts["url"]).append_column("of_url", texts["url"].take(at))
    for row in joined.filter(pc.not_equal(joined["doc_id"], joined["representative_id"])).to_pylist():
        detail = f"of {row['representative_id']} {row['of_url']}, jaccard {row['jaccard']:.3f}: {row['url']}"
        run.reject(row["doc_id"], "near_duplicate_document", detail)
