from __future__ import annotations

from collections import Counter

import pytest

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit, load_manifest, manifest_key, point, resolve
from pipeline_tasks.corpus.hold_out_documents import HoldOutDocumentsParams, hold_out_documents
from pipeline_tasks.corpus.near_duplicate_documents import near_duplicate_documents
from pipeline_tasks.datasets import DOCUMENT_CLUSTERS, DOCUMENTS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import quotes
from tests.stores import go, put, rows

ALL = {"test_documents": 1000, "dev_documents": 1000}
NONE = {"test_fraction": 0, "dev_fraction": 0}


def document(number: int, text: str = "A river rises.", revision: str = "") -> dict:
    """Its address is the same in every revision."""
    sha256 = f"{number:x}{revision}".zfill(64)
    return {"doc_id": f"doc{number}{revision}", "url_id": f"url{number}", "content_sha256": sha256, "text": text}


def held_out(store: LocalStore, documents: list[dict], **values) -> dict[str, str]:
    put(store, DOCUMENTS, documents)
    go(store, hold_out_documents, **values)
    return {row["doc_id"]: row["split"] for row in rows(store, "held_out")}


def refreshed(store: LocalStore, originals: list[dict], repeats: dict[str, dict]) -> dict[str, str]:
    """What is held out of ``originals`` with ``repeats``, by the id of the document that each repeats."""
    texts = [*originals, *repeats.values()]
    of = {row["doc_id"]: row["doc_id"] for row in originals} | {row["doc_id"]: of for of, row in repeats.items()}
    clusters = [{"doc_id": doc_id, "representative_id": of[doc_id], "jaccard": 0.9} for doc_id in of]
    put(store, DOCUMENTS, texts, dataset="texts")
    put(store, DOCUMENT_CLUSTERS, clusters, dataset="duplicates/documents")
    go(store, near_duplicate_documents)
    go(store, hold_out_documents, **ALL)
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


def test_one_that_is_withdrawn_makes_room_for_a_new_one_and_for_none_that_was_trained_on(store):
    few = {"test_documents": 5, "dev_documents": 0}
    before = held_out(store, [document(i) for i in range(100)], **few)
    gone = min(before)
    left = [row for row in map(document, range(100)) if row["doc_id"] != gone]
    after = held_out(store, left, **few)
    assert len(after) == 4 and before.keys() - after.keys() == {gone}
    (new,) = held_out(store, [*left, *map(document, range(100, 120))], **few).keys() - after.keys()
    assert int(new.removeprefix("doc")) >= 100
    assert len(held_out(store, left, split_salt="another", **few)) == 5, "other parameters draw from all"


def test_what_was_held_out_stays_so_when_its_text_grows_beyond_the_limit_and_nothing_new_is_drawn(store):
    few = {"test_queries": 5, "dev_queries": 3} | ALL
    documents = [document(i, "A river rises. " * 66) for i in range(100)]  # 990 characters each
    first = held_out(store, documents, **few)
    assert Counter(first.values()) == {"test": 5, "dev": 3}
    longer = [document(i, "A river rises. " * 99, "-b") if f"doc{i}" in first else documents[i] for i in range(100)]
    grown = held_out(store, [*longer, *(document(i, "Rain.") for i in range(100, 150))], **few)
    assert {doc_id.removesuffix("-b"): split for doc_id, split in grown.items()} == first


@pytest.mark.parametrize("few", [ALL, {"test_documents": 5, "dev_documents": 3}])
def test_other_bytes_at_an_address_move_it_to_no_other_split(store, few):
    def by_address(found: dict[str, str]) -> dict[str, str]:
        return {doc_id.split("-")[0]: split for doc_id, split in found.items()}

    first = held_out(store, [document(i) for i in range(100)], **few)
    assert first
    for week in range(3):
        found = held_out(store, [document(i, revision=f"-{week}") for i in range(100)], **few)
        assert by_address(found) == first and not found.keys() & first.keys()
        same = held_out(store, [document(i, revision=f"-{week}") for i in reversed(range(100))], **few)
        assert same == found


def test_what_was_trained_on_is_known_from_the_last_run_also_where_that_changed_nothing(store):
    first = held_out(store, [document(i) for i in range(40)], **NONE | {"test_fraction": 0.5, "test_documents": 30})
    later = [document(i) for i in range(40, 60) if unit_hash("split", f"{i:064x}") > 0.5]
    values = NONE | {"test_fraction": 0.5, "test_documents": 30}
    assert later and held_out(store, [*map(document, range(40)), *later], **values) == first
    again = [document(int(row["url_id"][3:]), revision="-b") for row in later]
    assert held_out(store, [*map(document, range(40)), *again], **values) == first


def test_a_near_duplicate_that_takes_the_place_of_a_document_is_on_its_side(store):
    originals, others = [document(i) for i in range(40)], [document(i) for i in range(100, 140)]
    first = refreshed(store, originals, {f"doc{i}": others[i] for i in range(40)})
    assert Counter(first.values()).keys() == {"test", "dev"} and not any(f"doc{i}" in first for i in range(100, 140))
    changed = [document(i, revision="-b") for i in range(40)]
    second = refreshed(store, others, {f"doc{100 + i}": changed[i] for i in range(40)})
    assert second == {f"doc{100 + int(doc_id[3:])}": split for doc_id, split in first.items()}
    third = refreshed(store, changed, {})
    assert third == {f"{doc_id}-b": split for doc_id, split in first.items()}


def test_rows_of_a_release_without_addresses_are_found_by_what_was_read_then(store):
    first = held_out(store, [document(i) for i in range(100)])
    manifest = load_manifest(store, resolve(store, Ref.parse("held_out")))
    old = [write_rows(store, Version.open(store, manifest.ref).table(["doc_id", "split", "reason"]))]
    commit(store, manifest.model_copy(update={"id": "1" * 16, "parts": old}))
    point(store, Ref(dataset="held_out", version="1" * 16))
    found = held_out(store, [document(i, revision="-b") for i in range(100)])
    assert {doc_id.split("-")[0]: split for doc_id, split in found.items()} == first


def test_what_is_held_out_stays_so_also_where_what_was_read_is_gone(store):
    few = {"test_documents": 5, "dev_documents": 3}
    before = held_out(store, [document(i) for i in range(40)], **few)
    store.delete(manifest_key(resolve(store, Ref.parse("documents"))))
    after = held_out(store, [document(i, revision="-b") for i in range(40)], **few)
    assert {doc_id.split("-")[0]: split for doc_id, split in after.items()} == before


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


def test_quotes_without_blanks_are_looked_for_again_where_an_earlier_release_missed_them(monkeypatch):
    before = HoldOutDocumentsParams().identity()
    monkeypatch.setattr("pipeline_tasks.corpus.hold_out_documents.quotes", lambda domain: ("洪水来临时请立即前往高处",))
    assert HoldOutDocumentsParams().identity().keys() - before.keys() == {"words"}
