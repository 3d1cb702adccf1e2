from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus import sketch_documents as module
from pipeline_tasks.corpus.sketch_documents import sketch_documents
from pipeline_tasks.datasets import DOCUMENTS
from pipeline_tasks.texts.minhash import sketch_texts
from tests.corpus.near_duplicates import planted
from tests.stores import go, put, rows


def documents(texts: list[str], first: int = 0) -> list[dict]:
    return [{"doc_id": f"d{first + i}", "text": text} for i, text in enumerate(texts)]


def test_rows_hold_the_sketches_in_the_order_of_the_documents(store, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 7)
    texts = [*planted()[:20], ""]
    put(store, DOCUMENTS, documents(texts), dataset="texts")
    outcome = go(store, sketch_documents, shingle_words=2, n_permutations=64)
    made = sketch_texts(pa.array(texts), 2, 64)
    found = rows(store, "sketches")
    assert [row["doc_id"] for row in found] == [f"d{i}" for i in range(21)]
    for i, row in enumerate(found):
        assert row["signature"] == made.signatures[i].tolist()
        assert row["shingles"] == made.shingles[made.offsets[i] : made.offsets[i + 1]].tolist()
    assert outcome.counters["rows_out"] == outcome.counters["rows_in"] == 21


def test_a_refresh_sketches_new_documents_alone(store):
    texts = planted()
    old = [documents(texts[:10]), documents(texts[10:20], 10)]
    put(store, DOCUMENTS, *old, dataset="texts")
    assert go(store, sketch_documents).counters["parts_built"] == 2
    put(store, DOCUMENTS, *old, documents(texts[20:23], 20), dataset="texts")
    outcome = go(store, sketch_documents)
    assert (outcome.counters["parts_built"], outcome.counters["parts_reused"]) == (1, 2)
    assert len(rows(store, "sketches")) == 23


@pytest.mark.parametrize("values", [{"n_permutations": 8}, {"shingle_words": 0}, {"threshold": 0.8}])
def test_parameters_that_make_no_sketch_are_refused(store, values):
    put(store, DOCUMENTS, documents(["one"]), dataset="texts")
    with pytest.raises(InputError, match=next(iter(values))):
        go(store, sketch_documents, **values)
