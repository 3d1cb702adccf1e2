from __future__ import annotations

import random

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.near_duplicate_documents import near_duplicate_documents
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.datasets import DOCUMENTS
from tests.corpus.near_duplicates import a_text
from tests.stores import go, put, rejects, rows


def row(doc_id: str, content: str) -> dict:
    return {"doc_id": doc_id, "url": f"http://example.org/{doc_id}", "text": content}


def test_the_earliest_document_stays_across_parts_and_the_reject_names_it(store):
    chance = random.Random(4)
    text, other = " ".join(a_text(chance)), " ".join(a_text(chance))
    parts = [[row("zz", text), row("mm", other)], [row("aa", text.upper()), row("bb", other + " more")]]
    put(store, DOCUMENTS, *parts, dataset="texts")
    go(store, sketch_documents)
    go(store, cluster_documents)
    outcome = go(store, near_duplicate_documents)
    assert [document["doc_id"] for document in rows(store, "documents")] == ["zz", "mm"]
    refused = rejects(store, "documents")
    assert refused["aa"]["detail"] == "of zz http://example.org/zz, jaccard 1.000: http://example.org/aa"
    assert "of mm http://example.org/mm, jaccard 0.997" in refused["bb"]["detail"]
    assert {row["reason"] for row in refused.values()} == {"near_duplicate_document"}
    assert outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == 4


def test_clusters_of_other_texts_are_refused(store):
    put(store, DOCUMENTS, [row("a", "one two"), row("b", "three four")], dataset="texts")
    go(store, sketch_documents)
    go(store, cluster_documents)
    put(store, DOCUMENTS, [row("a", "one two"), row("c", "five six")], dataset="texts")
    with pytest.raises(InputError, match="run sketch_documents and cluster_documents again"):
        go(store, near_duplicate_documents)
