from __future__ import annotations

from collections import Counter

import pytest

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from tests.corpus.test_hold_out_documents import ALL, document, held_out, refreshed

FEW = {"test_documents": 5, "dev_documents": 3}


def low(first: int, n: int) -> list[dict]:
    """The ``n`` documents from this number on that are likeliest for tests, of a hundred."""
    hundred = map(document, range(first, first + 100))
    return sorted(hundred, key=lambda row: unit_hash("split", row["content_sha256"]))[:n]


def moved(row: dict, site: str) -> dict:
    """The same bytes at another address."""
    return row | {"doc_id": f"{site}{row['doc_id']}", "url_id": f"{site}{row['url_id']}"}


@pytest.mark.parametrize("collected", [False, True])
def test_what_was_held_out_stays_so_where_it_was_away_and_others_took_its_room(store, collected):
    documents = [document(i) for i in range(100)]
    first = held_out(store, documents, **FEW)
    away = [doc_id for doc_id, split in first.items() if split == "test"][:2]
    left, new = [row for row in documents if row["doc_id"] not in away], low(1000, 10)
    for week in range(2):
        second = held_out(store, left + (new := [*new, document(2000 + week)]), **FEW)
        assert Counter(second.values()) == Counter(first.values()) and not second.keys() & set(away)
        if collected:
            drop(store, find_garbage(store, keep=1, memo=True, grace_s=0))
    assert held_out(store, [*documents, *new], **FEW) == first | second


@pytest.mark.parametrize("collected", [False, True])
def test_what_was_trained_on_stays_so_where_it_was_away_and_there_is_room(store, collected):
    documents = [document(i) for i in range(100)]
    first = held_out(store, documents, **FEW)
    (out, *_), trained = first, [row["doc_id"] for row in low(0, 20) if row["doc_id"] not in first]
    held_out(store, [row for row in documents if row["doc_id"] not in (out, *trained)], **FEW)
    if collected:
        drop(store, find_garbage(store, keep=1, memo=True, grace_s=0))
    left = [row for row in documents if row["doc_id"] != out]
    assert held_out(store, left, **FEW).keys() == first.keys() - {out}


def test_a_list_that_moves_to_another_site_moves_no_document_to_another_side(store):
    week = [document(i) for i in range(100)]
    first = held_out(store, week, **FEW)
    week += [document(i) for i in range(100, 400)]
    assert held_out(store, week, **FEW) == first
    found = held_out(store, [moved(row, "s-") for row in week], **FEW)
    assert found == {f"s-{doc_id}": split for doc_id, split in first.items()}
    changed = [moved(document(i, revision="-b"), "s-") for i in range(400)]
    assert {name.removesuffix("-b"): split for name, split in held_out(store, changed, **FEW).items()} == found


def test_bytes_that_were_trained_on_are_so_at_an_address_that_was_held_out(store):
    documents = [document(i) for i in range(40)]
    first = held_out(store, documents, **ALL)
    test = next(row for row in documents if first.get(row["doc_id"]) == "test")
    trained = next(row for row in documents if row["doc_id"] not in first)
    swapped = [
        {**one, "doc_id": f"new-{one['url_id']}", "content_sha256": other["content_sha256"]}
        for one, other in ((test, trained), (trained, test))
    ]
    others = [row for row in documents if row not in (test, trained)]
    found = held_out(store, [*others, *swapped], **ALL)
    assert found.keys() - first.keys() == {swapped[1]["doc_id"]}
    fresh = [document(int(row["url_id"][3:]), revision="-c") for row in (test, trained)]
    assert held_out(store, [*others, *fresh], **ALL).keys() - first.keys() == {fresh[0]["doc_id"]}, "as it first was"


def test_a_near_duplicate_that_moved_is_on_the_side_of_the_other(store):
    originals, others = [document(i) for i in range(40)], [document(i) for i in range(100, 140)]
    first = refreshed(store, originals, {f"doc{i}": others[i] for i in range(40)})
    there = {f"s-doc{100 + i}": moved(originals[i], "s-") for i in range(40)}
    second = refreshed(store, [moved(row, "s-") for row in others], there)
    assert second == {f"s-doc{100 + int(doc_id[3:])}": split for doc_id, split in first.items()}


def test_other_parameters_draw_anew_and_what_they_draw_stays(store):
    documents = [document(i) for i in range(100)]
    first = held_out(store, documents, **FEW)
    anew = held_out(store, documents, split_salt="another", **FEW)
    assert anew != first
    (away, *_) = anew
    held_out(store, [row for row in documents if row["doc_id"] != away], split_salt="another", **FEW)
    assert held_out(store, documents, split_salt="another", **FEW) == anew


def test_a_held_out_whose_versions_are_lost_is_drawn_as_it_was(store: LocalStore):
    documents = [document(i) for i in range(100)]
    first = held_out(store, documents, **FEW)
    store.delete_all([*store.keys("versions/held_out"), *store.keys("refs/held_out")])
    assert held_out(store, [*documents, *low(1000, 30)], **FEW) == first
