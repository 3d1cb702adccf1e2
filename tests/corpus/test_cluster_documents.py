from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import REMOVED, commit, load_manifest, point
from pipeline_tasks.corpus.cluster_documents import cluster_documents
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.datasets import DOCUMENTS
from tests.corpus.near_duplicates import a_text, all_pairs, planted
from tests.stores import go, put, rows

Clusters = dict[str, tuple[str, float]]


def put_texts(store: LocalStore, texts: list[str], part_rows: int) -> Ref:
    documents = [{"doc_id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    parts = [documents[i : i + part_rows] for i in range(0, len(documents), part_rows)]
    return put(store, DOCUMENTS, *parts, dataset="texts")


def withdraw(store: LocalStore, ref: Ref, doc_id: str) -> None:
    """A version of ``ref`` without one document, as a refresh makes it."""
    manifest = load_manifest(store, ref)
    keys = write_rows(store, pa.table({"key": [doc_id]}, schema=REMOVED))
    removal = Removal(part=keys, column="doc_id", first=0, last=len(manifest.parts))
    changed = {"id": short_id(manifest.id, doc_id), "removals": [removal], "rows": manifest.rows - 1}
    commit(store, manifest.model_copy(update=changed))
    point(store, Ref(dataset=ref.dataset, version=changed["id"]))


def clustered(store: LocalStore, **values: float) -> tuple[Clusters, Outcome]:
    go(store, sketch_documents)
    outcome = go(store, cluster_documents, **values)
    found = rows(store, "duplicates/documents")
    return {row["doc_id"]: (row["representative_id"], row["jaccard"]) for row in found}, outcome


@pytest.mark.parametrize("block_mib", [256, 0.02])
@pytest.mark.parametrize("part_rows", [1, 7, 80])
def test_every_document_has_the_representative_of_all_pairs_whatever_the_parts_and_groups(store, part_rows, block_mib):
    texts = planted()
    put_texts(store, texts, part_rows)
    found, outcome = clustered(store, threshold=0.45, block_mib=block_mib)
    expected = {f"d{i}": (f"d{i}", 1.0) for i in range(80)}
    expected |= {f"d{i}": (f"d{j}", jaccard) for i, (j, jaccard) in all_pairs(texts, 0.45).items()}
    assert found == expected and list(found) == list(expected)
    assert outcome.counters["duplicates"] == 40 <= outcome.counters["pairs_compared"]


def test_a_refresh_reads_the_keys_of_new_documents_alone(store):
    texts, block = planted(), {"threshold": 0.45, "block_mib": 0.03}
    put_texts(store, texts[:72], 8)
    before, first = clustered(store, **block)
    put_texts(store, texts, 8)
    after, then = clustered(store, **block)
    assert {doc: after[doc] for doc in before} == before
    assert first.counters["partitions_reused"] == 0 < then.counters["partitions_reused"]


def test_only_those_who_share_a_band_are_candidates(store):
    chance = random.Random(7)
    texts = [" ".join(a_text(chance)) for _ in range(60)]
    put_texts(store, [*texts, texts[3]], 16)
    found, outcome = clustered(store)
    assert {doc: pair for doc, pair in found.items() if pair[0] != doc} == {"d60": ("d3", 1.0)}
    assert outcome.counters["candidates"] == 2 and outcome.counters["pairs_compared"] == 1


def test_a_refresh_never_moves_an_old_document(store):
    texts = planted()
    put_texts(store, texts[:48], 8)
    before, _ = clustered(store, threshold=0.45)
    put_texts(store, [*texts[:48], *texts[48:], *texts[:8]], 8)
    after, _ = clustered(store, threshold=0.45)
    assert {doc: after[doc] for doc in before} == before
    assert [after[f"d{i}"] for i in range(80, 88)] == [(f"d{i}", 1.0) for i in range(8)]


def test_the_duplicates_of_a_withdrawn_representative_come_back(store):
    chance = random.Random(5)
    text, other = " ".join(a_text(chance)), " ".join(a_text(chance))
    ref = put_texts(store, [text, other, text, text, other], 2)
    before, _ = clustered(store)
    assert [pair[0] for pair in before.values()] == ["d0", "d1", "d0", "d0", "d1"]
    withdraw(store, ref, "d0")
    after, outcome = clustered(store)
    assert {doc: pair[0] for doc, pair in after.items()} == {"d1": "d1", "d2": "d2", "d3": "d2", "d4": "d1"}
    assert outcome.counters["rows_in"] == outcome.counters["rows_out"] == 4


def test_no_documents_are_no_clusters(store):
    put(store, DOCUMENTS, [], dataset="texts")
    assert clustered(store)[0] == {}
