from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core import pointing
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.latest import note_key
from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.pointing import Move, move
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import load_manifest, resolve
from tests.core.toy_steps import (
    ITEMS,
    check_whole,
    latest,
    make,
    rows_of,
    toy_bare,
    toy_gather,
    toy_list,
    toy_model,
    toy_scale,
    toy_unique,
)
from tests.stores import put

FIRST = {"a": 1, "b": 2}
CHAIN = (toy_scale, toy_unique, toy_bare)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Made from a sound list, then from an empty one."""
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=FIRST)
    for what in CHAIN:
        make(store, what)
    make(store, toy_list, rows={"a": 1}, max_withdrawn=1)
    for what in CHAIN:
        make(store, what)
    return store


def versions(store: LocalStore, dataset: str) -> list[Ref]:
    """What ``latest`` names, and what was there before it."""
    now = resolve(store, Ref(dataset=dataset))
    found = [Ref(dataset=dataset, version=Path(key).stem) for key in store.keys(f"versions/{dataset}")]
    return sorted(found, key=lambda ref: ref != now)


def test_a_dataset_that_is_pointed_back_grows_on_from_there(store):
    bad, good = versions(store, "items")
    assert move(store, good) == [Move(good, "latest", bad.version)]
    again = make(store, toy_list, rows=FIRST)
    assert again.reused and again.ref == good
    grown = make(store, toy_list, rows=FIRST | {"c": 3})
    assert load_manifest(store, grown.ref).inputs == {"previous": [str(good)]}
    assert latest(store, "items").manifest.ref == grown.ref and len(rows_of(store, "items")) == 3


def test_a_whole_chain_goes_back_to_what_a_version_was_made_from(store):
    (_, good), (_, items) = versions(store, "bare"), versions(store, "items")
    moved = move(store, good, ancestors=True)
    assert [m.ref.dataset for m in moved] == ["items", "scaled", "unique", "bare"]
    assert moved[0].ref == items and len(rows_of(store, "bare")) == 2
    assert all(make(store, what).reused for what in CHAIN)
    assert latest(store, "bare").manifest.ref == good
    assert move(store, good, ancestors=True) == [Move(good, "latest", good.version)]


def test_of_a_growing_dataset_that_stayed_as_it_was_the_request_counts_that_read_what_the_others_did(tmp_path):
    store = LocalStore(tmp_path / "store")
    asked = []
    for value in (1, 2, 3):
        items = make(store, toy_list, rows={"a": value}).ref
        asked.append((items, make(store, toy_scale).ref, make(store, toy_gather).ref))
    (first, _, _), (items, scaled, gathered), (third, _, last) = asked
    assert gathered == last and load_manifest(store, gathered).inputs == {"items": [str(first)]}
    both = {"scaled": [str(scaled)], "gathered": [str(gathered)]}
    mixed = load_manifest(store, scaled).model_copy(update={"dataset": "mixed", "inputs": both})
    store.create(f"versions/mixed/{mixed.id}.json", mixed.to_bytes())
    assert [m.ref for m in move(store, mixed.ref, ancestors=True)] == [items, scaled, mixed.ref]
    assert make(store, toy_gather).ref == gathered
    assert [m.ref for m in move(store, gathered, ancestors=True)] == [third, gathered], "what the last request read"
    update = {"inputs": both | {"items": [str(third)]}, "id": "0" * 16}
    store.create(f"versions/mixed/{'0' * 16}.json", mixed.model_copy(update=update).to_bytes())
    with pytest.raises(InputError, match="made from items@.* and items@.*; point them one by one"):
        move(store, Ref(dataset="mixed", version="0" * 16), ancestors=True)


def test_garbage_is_collected_between_the_look_at_a_version_and_its_name(store, monkeypatch):
    _, good = versions(store, "bare")
    point = pointing.point

    def late(store: LocalStore, ref: Ref, name: str) -> bytes | None:
        drop(store, find_garbage(store, keep=1, grace_s=0))
        return point(store, ref, name)

    monkeypatch.setattr(pointing, "point", late)
    move(store, good, ancestors=True)
    assert latest(store, "bare").manifest.ref == good
    check_whole(store)


def test_the_lineage_tells_who_moved_a_name_and_from_where(store):
    bad, good = versions(store, "items")
    move(store, good)
    move(store, good)
    move(store, bad, "suspicious")
    found = query(store, "SELECT dataset, name, version, version_before FROM moves ORDER BY moved_at").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("items", "latest", good.version, bad.version),
        ("items", "suspicious", bad.version, None),
    ]
    (who,) = query(store, "SELECT DISTINCT moved_by FROM moves").to_pylist()
    assert "@" in who["moved_by"]
    built = query(store, "SELECT count(*) AS n FROM steps WHERE step = 'point'").to_pylist()
    assert built == [{"n": 0}], "it is no run of a step"


def test_a_build_that_was_killed_does_not_undo_what_a_person_said(store):
    bad, good = versions(store, "items")
    store.replace(note_key(bad), good.version.encode())
    store.replace(note_key(Ref(dataset="items/other", version="1")), b"stays")
    move(store, good)
    assert list(store.keys("moves")) == ["moves/items/other/1"]


def test_a_name_and_a_dataset_do_not_take_each_others_place(tmp_path):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=FIRST)
    make(store, toy_model, size="4b")
    ref = put(store, ITEMS, [{"item_id": "a", "value": 1}], dataset="model")
    with pytest.raises(InputError, match="'4b' is taken: there is a dataset model/4b; choose another"):
        move(store, ref, "4b")
    move(store, ref, "6b")
    move(store, ref, "6b")
    with pytest.raises(InputError, match="would write 'model/6b/toy', and that is the name of a version"):
        make(store, toy_model, size="6b")


@pytest.mark.parametrize(
    ("what", "name", "complaint"),
    [
        ("items@absent", "latest", "not in the store"),
        ("items/rejects", "latest", "point items"),
        ("items", "../x", "is not DATASET"),
        ("items", "0" * 16, "would read as the id"),
    ],
)
def test_what_is_no_version_or_no_name_is_refused(store, what, name, complaint):
    refs = {key: store.read(key) for key in store.keys("refs")}
    with pytest.raises(InputError, match=complaint):
        move(store, Ref.parse(what), name)
    assert {key: store.read(key) for key in store.keys("refs")} == refs


def test_ancestors_of_two_minds_are_not_guessed(store):
    _, scaled = versions(store, "scaled")
    bad, good = versions(store, "items")
    mixed = load_manifest(store, scaled).model_copy(
        update={"id": "0" * 16, "inputs": {"items": [str(good)], "other": [str(bad)]}}
    )
    store.create(f"versions/scaled/{mixed.id}.json", mixed.to_bytes())
    with pytest.raises(InputError, match="made from items@.* and items@.*; point them one by one"):
        move(store, mixed.ref, ancestors=True)
