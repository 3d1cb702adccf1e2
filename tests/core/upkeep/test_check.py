"""What is damaged or lost is found, what rests on it is forgotten, and its steps make it again."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.pins import MARK
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.check import MISSING, drop_damage, find_damage, forget
from pipeline_tasks.core.upkeep.compact import compact, find_scattered
from pipeline_tasks.core.versions import manifest_key
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import (
    check_whole,
    latest,
    make,
    rows_of,
    toy_bare,
    toy_gather,
    toy_list,
    toy_model,
    toy_scale,
    toy_total,
    toy_unique,
)
from tests.core.upkeep.test_gc_beside_steps import tick
from tests.stores import put_part

WORLD = {f"item{n}": n % 4 for n in range(6)}


def run_chain(store: Store) -> None:
    make(store, toy_list, rows=WORLD)
    for what in (toy_scale, toy_unique, toy_bare, toy_total, toy_model):
        make(store, what)


def damage(store: Store, key: str, how: str) -> None:
    """Behind the store's back, as far as it can tell."""
    if how == "deleted":
        store.delete(key)
    else:
        data = store.read(key) or b""
        store.replace(key, data[:-1] if how == "cut off" else data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("how", ["deleted", "cut off", "changed"])
def test_a_lost_part_is_made_again_once_what_rests_on_it_is_forgotten(any_store, how):
    run_chain(any_store)
    whole = check_whole(any_store)
    assert find_damage(any_store).objects == {}
    part = latest(any_store, "scaled").manifest.parts[1]
    damage(any_store, part.key, how)
    if how != "deleted":
        assert make(any_store, toy_scale).reused, "a run alone makes nothing again: that it is there is all it sees"

    found = find_damage(any_store)
    told = {"deleted": MISSING, "cut off": "instead of", "changed": "its sha256 is"}
    assert list(found.objects) == [part.key] and told[how] in found.objects[part.key]
    assert (found.steps, set(found.refs.values())) == (["toy_scale", "toy_unique"], {None})
    assert bool(find_damage(any_store, quick=True).objects) is (how != "changed")

    forget(any_store, found)
    assert find_damage(any_store).objects == {} and not any_store.exists(part.key)
    remade = make(any_store, toy_scale)
    assert remade.counters["parts_built"] == 1, "the other parts are in the memo"
    run_chain(any_store)
    assert check_whole(any_store) == whole


def test_a_part_that_no_version_names_is_checked_too(any_store):
    run_chain(any_store)
    key = put_part(any_store, b"of the memo")
    damage(any_store, key, "changed")
    found = find_damage(any_store)
    assert list(found.objects) == [key] and found.versions == []
    forget(any_store, found)
    assert not any_store.exists(key)


def test_a_dataset_that_grows_goes_back_to_its_last_whole_version(tmp_path):
    store = LocalStore(tmp_path / "store")
    versions = []
    for n in (2, 4, 6):
        make(store, toy_list, rows=dict(list(WORLD.items())[:n]))
        versions.append(make(store, toy_gather).ref)
    newest = latest(store, "gathered").manifest
    damage(store, newest.parts[-1].key, "changed")
    found = find_damage(store)
    assert [manifest.ref for manifest in found.versions] == [versions[2]]
    assert found.refs == {"refs/gathered/latest": versions[1]}
    forget(store, found)
    assert latest(store, "gathered").manifest.ref == versions[1]
    assert make(store, toy_gather).ref == versions[2]

    damage(store, newest.parts[0].key, "deleted")
    forget(store, find_damage(store))
    assert not list(store.keys("refs/gathered"))
    make(store, toy_gather)
    assert len(rows_of(store, "gathered")) == 6


def test_a_damaged_part_is_told_by_who_reads_it(tmp_path):
    store = LocalStore(tmp_path / "store")
    run_chain(store)
    version = latest(store, "scaled")
    path = store.local_path(version.manifest.parts[0].key)
    data = path.read_bytes()
    for bad in (data[: len(data) // 2], b"", data[:-20] + bytes(20), bytes(len(data))):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"objects/.* cannot be read .*; copy it .*`foundry check`"):
            version.table()
        with pytest.raises(InputError, match="cannot be read"):
            list(version.batches(["value"], 1))


def test_a_damaged_copy_on_this_machine_is_fetched_anew(s3):
    key = put_part(s3, b"what was written")
    copy = s3.local_path(key)
    copy.chmod(0o644)
    copy.write_bytes(b"what a disk made of it")
    assert find_damage(s3).objects == {}
    assert s3.local_path(key).read_bytes() == b"what was written"


def test_what_is_put_together_during_the_look_is_not_lost(s3, tmp_path, monkeypatch):
    run_chain(s3)
    tick(s3)
    other = S3Store(str(s3), tmp_path / "other", CACHE_BYTES)
    plain, moved = other.bucket.below, []

    def below(prefix):
        if prefix == "objects":
            monkeypatch.setattr(other.bucket, "below", plain)
            found = find_scattered(s3, grace_s=0, pack_bytes=500)
            compact(s3, found)
            moved.extend(found.objects)
        return plain(prefix)

    monkeypatch.setattr(other.bucket, "below", below)
    assert find_damage(other).objects == {} and moved


def test_only_what_is_still_damaged_is_dropped(any_store):
    run_chain(any_store)
    whole = check_whole(any_store)
    part = latest(any_store, "scaled").manifest.parts[1]
    good = any_store.read(part.key)
    damage(any_store, part.key, "deleted")
    found = find_damage(any_store)
    any_store.replace(part.key, good)
    assert drop_damage(any_store, found).objects == {}
    assert check_whole(any_store) == whole and not any_store.exists(MARK)


def test_what_a_collection_drops_during_the_look_is_not_lost(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"old": 1})
    manifest = latest(store, "items").manifest
    make(store, toy_list, rows={"new": 2})
    entries = store.entries

    def collect_first(prefix):
        if prefix == "objects":
            store.delete_all([manifest_key(manifest.ref), *(part.key for part in manifest.parts)])
        return entries(prefix)

    monkeypatch.setattr(store, "entries", collect_first)
    assert find_damage(store).objects == {}
