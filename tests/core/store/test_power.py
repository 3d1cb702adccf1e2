"""After a power cut: what was promised is there and whole, what is torn is made again or told."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.core import durable
from pipeline_tasks.core.engines.local import Local
from pipeline_tasks.core.execution.growth_requests import requests_key
from pipeline_tasks.core.pins import deletion
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import check_whole, make, rows_of, toy_gather, toy_list, toy_scale, toy_tally, toy_unique
from tests.power import Disk
from tests.stores import put_part

CUTS = 8
WORLD = {f"item{n}": n for n in range(6)}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "store")
    with disk.watched():
        yield disk


@pytest.mark.parametrize("seed", range(CUTS))
def test_what_was_written_before_a_power_cut_is_there_and_whole(disk, seed):
    store = LocalStore(disk.root)
    for n in range(3):
        store.replace("refs/x/latest", b"version %d" % n)
        assert store.create(f"responses/aa/{n}.json", b"answer %d" % n)
    disk.cut(random.Random(seed))
    assert store.read("refs/x/latest") == b"version 2"
    assert [store.read(f"responses/aa/{n}.json") for n in range(3)] == [b"answer 0", b"answer 1", b"answer 2"]


@pytest.mark.parametrize("seed", range(CUTS))
def test_a_version_that_was_committed_before_a_power_cut_is_whole(disk, seed):
    store = LocalStore(disk.root)
    make(store, toy_list, rows=WORLD)
    make(store, toy_scale)
    before = check_whole(store)
    disk.cut(random.Random(seed))
    assert check_whole(store) == before
    assert len(rows_of(store, "scaled")) == 6
    assert make(store, toy_scale, factor=3).counters["rows_out"] == 6


def _elsewhere(_: Local, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """As worker processes do it, each with a store of its own; the disk watches this process alone."""
    for place, item in enumerate(items):
        yield place, pickle.loads(pickle.dumps(work))(item)


@pytest.mark.parametrize("seed", range(CUTS))
def test_what_worker_processes_wrote_is_whole_once_their_version_is_committed(disk, seed, monkeypatch):
    store = LocalStore(disk.root)
    make(store, toy_list, rows=WORLD)
    monkeypatch.setattr(Local, "each", _elsewhere)
    make(store, toy_scale)
    make(store, toy_tally)
    make(store, toy_list, rows=WORLD | {"new": 7})
    before = check_whole(store)
    disk.cut(random.Random(seed))
    assert check_whole(store) == before


def test_a_version_that_grew_syncs_the_folders_of_what_it_added_alone(tmp_path, monkeypatch):
    make(LocalStore(tmp_path), toy_list, rows={f"item{n}": n for n in range(40)}, part_rows=1)
    synced, sync = set[Path](), durable.sync
    monkeypatch.setattr(durable, "sync", lambda path: synced.add(path) or sync(path))
    held = {(tmp_path / key).parent for key in LocalStore(tmp_path).keys("objects")}
    make(LocalStore(tmp_path), toy_list, rows={f"item{n}": n for n in range(41)}, part_rows=1)
    assert len(held) > 20 and len(synced & held) <= 2


@pytest.mark.parametrize("seed", range(CUTS))
def test_what_a_killed_process_did_not_sync_outlives_a_cut_once_another_relies_on_it(disk, seed, monkeypatch):
    """A file's bytes are synced before it has its name; between the name and its own sync there is room for a kill."""
    sync = durable.sync
    make(LocalStore(disk.root), toy_list, rows=WORLD)
    with monkeypatch.context() as killed:
        killed.setattr(durable, "sync", lambda path: sync(path) if path.is_file() else None)
        make(LocalStore(disk.root), toy_scale)
    store = LocalStore(disk.root)
    assert make(store, toy_scale).reused
    make(store, toy_unique)
    before = check_whole(store)
    disk.cut(random.Random(seed))
    assert check_whole(store) == before


@pytest.mark.parametrize("seed", range(CUTS))
def test_what_was_dropped_before_its_parts_does_not_come_back_without_them(disk, seed):
    store = LocalStore(disk.root)
    key = put_part(store, b"rows")
    store.create("versions/x/1.json", key.encode())
    store.delete_all(["versions/x/1.json"])
    store.delete_all([key])
    put_part(store, b"other rows")
    disk.cut(random.Random(seed))
    assert not store.exists("versions/x/1.json") or store.exists(key)


@pytest.mark.parametrize("seed", range(CUTS))
@pytest.mark.parametrize("renamed", [True, False])
def test_what_a_killed_process_let_go_of_and_did_not_sync_does_not_come_back_without_it(
    disk, seed, renamed, monkeypatch
):
    store, sync = LocalStore(disk.root), durable.sync
    before, after = (put_part(store, rows) for rows in (b"rows", b"fewer rows"))
    store.create("versions/x/1.json", before.encode())
    with monkeypatch.context() as killed:
        killed.setattr(durable, "sync", lambda path: sync(path) if path.is_file() else None)
        if renamed:
            store.replace("versions/x/1.json", after.encode())
        else:
            store.delete("versions/x/1.json")
    with deletion(LocalStore(disk.root), [before]) as right:
        right.delete_all([before])
    disk.cut(random.Random(seed))
    named = store.read("versions/x/1.json")
    assert named is None or store.exists(named.decode())


TORN = {"empty": b"", "half": b'{"output": {"sha', "zeros": b"\0" * 16, "no text": b"\xff\xfe"}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_a_torn_memo_record_is_a_miss(tmp_path, torn):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    ref = make(store, toy_scale).ref
    lost, *_ = store.keys("memo")
    (store.root / lost).write_bytes(torn)
    store.delete(f"versions/scaled/{ref.version}.json")
    outcome = make(store, toy_scale)
    assert (outcome.ref, outcome.counters["parts_built"], outcome.counters["parts_reused"]) == (ref, 1, 2)


@pytest.mark.parametrize("torn", [*TORN.values(), b"0123456789abcdef"], ids=[*TORN, "another"])
def test_a_torn_ref_names_the_newest_version_that_is_there(tmp_path, torn):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    ref = make(store, toy_list, rows=WORLD | {"new": 7}).ref
    make(store, toy_scale)
    (store.root / "refs/items/latest").write_bytes(torn)
    assert len(rows_of(store, "items")) == 7
    assert make(store, toy_scale).reused
    assert make(store, toy_list, rows=WORLD | {"new": 7}).ref == ref
    assert store.read("refs/items/latest") == ref.version.encode()


def test_torn_notes_of_requests_are_answered_anew(tmp_path):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    for asked in ("monday", "tuesday"):
        ref = make(store, toy_gather, asked=asked).ref
    store.replace(requests_key(ref), b"")
    assert make(store, toy_gather, asked="tuesday").ref == ref
    assert len(store.read(requests_key(ref)) or b"") > 2


def test_a_torn_manifest_is_made_again(tmp_path):
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    ref = make(store, toy_scale).ref
    whole = store.read(f"versions/scaled/{ref.version}.json")
    store.replace(f"versions/scaled/{ref.version}.json", b"")
    assert make(store, toy_scale).ref == ref
    assert store.read(f"versions/scaled/{ref.version}.json") == whole
    assert make(store, toy_unique).counters["rows_in"] == 6
