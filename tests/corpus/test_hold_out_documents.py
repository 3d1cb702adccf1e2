from __future__ import annotations

from collections import Counter

import pytest

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, resolve
from pipeline_tasks.corpus.hold_out_documents import HoldOutDocumentsParams, hold_out_documents
from pipeline_tasks.datasets import DOCUMENTS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import quotes
from tests.stores import go, put, rows

ALL = {"test_documents": 1000, "dev_documents": 1000}
NONE = {"test_fraction": 0, "dev_fraction": 0}


def document(number: int, text: str = "A river rises.", sha256: str = "") -> dict:
    return {"doc_id": f"doc{number}", "content_sha256": sha256 or f"{number:064x}", "text": text}


def held_out(store: LocalStore, documents: list[dict], **values) -> dict[str, str]:
    put(store, DOCUMENTS, documents)
    go(store, hold_out_documents, **values)
    return {row["doc_id"]: row["split"] for row in rows(store, "held_out")}


def test_the_bytes_of_a_document_draw_it_and_no_more_than_the_fractions(store):
    found = held_out(store, [document(i) for i in range(1000)], **ALL)
    counts = Counter(found.values())
    assert counts["test"] == pytest.approx(250, abs=40) and counts["dev"] == pytest.approx(150, abs=40)
    assert max(counts["test"] - 250, counts["dev"] - 150) <= 0
    assert {name for name, split in found.items() if split == "test"} <= {
        f"doc{i}" for i in range(1000) if unit_hash("split", f"{i:064x}") < 0.25
    }
    assert held_out(store, [document(i) for i in range(1000)], split_salt="another", **ALL) != found


def test_a_large_corpus_gives_a_test_what_it_needs_and_trains_on_the_rest(store):
    counts = Counter(held_out(store, [document(i) for i in range(1000)], test_documents=5, dev_documents=3).values())
    assert counts == {"test": 5, "dev": 3}


def test_no_more_is_held_out_than_gives_the_queries_that_a_test_needs(store):
    documents = [document(i, "A river rises. " * 200) for i in range(400)]  # 3,000 characters each: three queries
    counts = Counter(held_out(store, documents, test_queries=12, dev_queries=6, **ALL).values())
    assert counts == {"test": 4, "dev": 2}
    assert Counter(held_out(store, documents, test_queries=0, dev_queries=6, **ALL).values()) == {"dev": 2}


def test_a_few_long_documents_do_not_take_most_of_the_text_from_training(store):
    documents = [
        document(i, "A river rises. " * (200 if unit_hash("split", f"{i:064x}") < 0.4 else 10)) for i in range(40)
    ]
    found = held_out(store, documents, **ALL)
    total = sum(len(row["text"]) for row in documents)
    for split, fraction in (("test", 0.25), ("dev", 0.15)):
        taken = sum(len(row["text"]) for row in documents if found.get(row["doc_id"]) == split)
        assert 0 < taken <= fraction * total


def test_a_refresh_moves_no_document_and_a_full_set_stays_the_same_version(store):
    few = {"test_documents": 5, "dev_documents": 3}
    before = held_out(store, [document(i) for i in range(100)], **few)
    assert held_out(store, [document(i) for i in reversed(range(1000))], **few) == before
    put(store, DOCUMENTS, [document(i) for i in range(1001)])
    assert go(store, hold_out_documents, **few).ref == resolve(store, Ref.parse("held_out"))
    assert len(Version.open(store, Ref.parse("held_out")).manifest.parts) == 1


def test_what_was_held_out_stays_so_when_what_is_trained_on_is_withdrawn(store):
    few = {"test_documents": 5, "dev_documents": 3}
    before = held_out(store, [document(i) for i in range(40)], **few)
    assert held_out(store, [row for row in map(document, range(40)) if row["doc_id"] in before], **few) == before


def test_one_that_is_withdrawn_makes_room(store):
    few = {"test_documents": 5, "dev_documents": 0}
    before = held_out(store, [document(i) for i in range(100)], **few)
    gone = min(before)
    after = held_out(store, [row for row in map(document, range(100)) if row["doc_id"] != gone], **few)
    assert len(after) == 5 and before.keys() - after.keys() == {gone}


@pytest.mark.parametrize("fraction", [0.0, 0.9])
def test_a_document_that_a_judged_question_quotes_is_never_trained_on(store, fraction):
    quote = quotes(domain_folder())[0]
    judged = [document(0, f"A river rises. {quote} A road floods."), document(1, quote.replace(" ", "\n", 3))]
    others = [document(i) for i in range(2, 10)]
    found = held_out(store, [*judged, *others], test_fraction=0, dev_fraction=fraction)
    assert found.pop("doc0") == found.pop("doc1") == "test"
    assert "test" not in found.values()
    assert held_out(store, [*judged, *others], judged=False, **NONE) == {}


def test_other_questions_are_another_version():
    assert HoldOutDocumentsParams().identity() != HoldOutDocumentsParams(judged=False).identity()
    assert HoldOutDocumentsParams().identity()["quotes"] != HoldOutDocumentsParams(judged=False).identity()["quotes"]
