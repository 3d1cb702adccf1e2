"""Collecting garbage while steps run: what they read, write again or find made stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.pins import deletion
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import point
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import ITEMS, check_whole, latest, make, rows_of, toy_gather, toy_list, toy_scale

WAIT_S = 60.0
LEASE_S = 2.0
reached, leave = threading.Event(), threading.Event()


@step(reads={"items": ITEMS}, writes=ITEMS, kind="reduce", dataset="held_up")
def toy_held_up(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """The items, read once somebody says so."""
    reached.set()
    assert leave.wait(WAIT_S)
    return inputs["items"].table()


@contextmanager
def running(store: Store) -> Iterator[None]:
    """A step that has begun and has not read; it ends well with the block."""
    reached.clear()
    leave.clear()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            make(store, toy_held_up)
        except BaseException as error:
            failed.append(error)
            reached.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(WAIT_S)
    yield
    leave.set()
    thread.join()
    assert not failed, failed


def collect(store: Store, **asked: object) -> None:
    tick(store)
    drop(store, find_garbage(store, grace_s=0, **asked))


def tick(store: Store) -> None:
    """Until all that is there is older than now, by a clock that may count in seconds."""
    newest = max(entry.modified for folder in ("versions", "objects") for entry in store.entries(folder))
    while store.now() <= newest:
        time.sleep(0.02)


def test_keep_1_removes_what_a_running_step_reads(any_store):
    make(any_store, toy_list, rows={"old": 1})
    with running(any_store):
        make(any_store, toy_list, rows={"new": 2})
        tick(any_store)
        make(any_store, toy_list, rows={"newest": 3})
        collect(any_store, keep=1, memo=True)
    assert rows_of(any_store, "held_up") == [{"item_id": "old", "value": 1}]
    assert len(list(any_store.keys("versions/items"))) == 2, "one is read, one is the latest"
    check_whole(any_store)


def test_a_part_of_a_running_step_that_nothing_names_yet_stays(any_store):
    make(any_store, toy_list, rows={"old": 1})
    with running(any_store):
        part = write_rows(any_store, ITEMS.table([{"item_id": "unnamed", "value": 5}]))
        collect(any_store)
        assert any_store.exists(part.key)
    collect(any_store)
    assert not any_store.exists(part.key)


def test_a_file_that_a_running_step_sends_for_hours_stays(any_store, monkeypatch):
    monkeypatch.setattr("pipeline_tasks.core.upkeep.gc.TEMPORARY_S", 0.0)
    make(any_store, toy_list, rows={"old": 1})
    with any_store.temporary() as path:
        with running(any_store):
            collect(any_store)
            stayed = path.exists()
        collect(any_store)
        assert (stayed, path.exists()) == (True, False)


def test_a_part_that_is_written_again_between_the_listing_and_its_deletion_is_lost(any_store, monkeypatch):
    """The writer comes after the last look: it must not take what is about to go for something that stays."""
    table = ITEMS.table([{"item_id": "again", "value": 1}])
    part = write_rows(any_store, table)
    offered, real = threading.Event(), (any_store.delete_all, any_store.create_from)

    def create_from(key: str, path: Path) -> bool:
        made = real[1](key, path)
        offered.set()
        return made

    def delete_all(keys: list[str]) -> None:
        writer.start()
        assert offered.wait(WAIT_S)
        monkeypatch.undo()
        real[0](keys)

    writer = threading.Thread(target=write_rows, args=(any_store, table))
    tick(any_store)
    sweep = find_garbage(any_store, grace_s=0)
    assert sweep.keys["objects"] == [part.key]
    sweep.entries = {"objects": sweep.entries["objects"]}
    monkeypatch.setattr(any_store, "create_from", create_from)
    monkeypatch.setattr(any_store, "delete_all", delete_all)
    drop(any_store, sweep)
    writer.join()
    assert any_store.exists(part.key)


def test_a_part_is_lost_whose_writer_looks_for_the_mark_when_the_deletion_is_over(any_store, monkeypatch):
    """Found there, then deleted, and the mark gone: no mark does not mean that nothing was deleted."""
    table = ITEMS.table([{"item_id": "again", "value": 1}])
    part, real, stack = write_rows(any_store, table), any_store.create_from, ExitStack()
    right = stack.enter_context(deletion(any_store, [part.key]))

    def create_from(key: str, path: Path) -> bool:
        made = real(key, path)
        monkeypatch.undo()
        with stack:
            right.delete_all([key])
        return made

    monkeypatch.setattr(any_store, "create_from", create_from)
    write_rows(any_store, table)
    assert any_store.exists(part.key)


def test_a_part_ends_its_step_that_is_deleted_between_it_is_found_and_touched(s3, monkeypatch):
    table = ITEMS.table([{"item_id": "again", "value": 1}])
    part, real = write_rows(s3, table), s3.bucket.touch

    def touch(key: str) -> None:
        monkeypatch.undo()
        s3.delete(key)
        real(key)

    monkeypatch.setattr(s3.bucket, "touch", touch)
    write_rows(s3, table)
    assert s3.exists(part.key)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_version_whose_part_is_gone_is_reused(any_store, lost):
    make(any_store, toy_list, rows={"a": 1, "b": 2, "c": 3})
    made = make(any_store, toy_scale)
    any_store.delete(latest(any_store, "scaled").manifest.parts[lost].key)
    again = make(any_store, toy_scale)
    assert (again.ref, again.reused, again.counters["parts_built"]) == (made.ref, False, 1)
    assert make(any_store, toy_scale).reused
    check_whole(any_store)


def test_a_growing_version_whose_part_is_gone_grows_again_from_the_one_before(tmp_path):
    store = LocalStore(tmp_path)
    make(store, toy_list, rows={"a": 1})
    first = make(store, toy_gather).ref
    make(store, toy_list, rows={"a": 1, "b": 2, "c": 3})
    second = make(store, toy_gather).ref
    store.delete(latest(store, "gathered").manifest.parts[1].key)
    again = make(store, toy_gather)
    assert not again.reused and again.ref == second
    assert latest(store, "gathered").manifest.inputs["previous"] == [str(first)]
    assert len(rows_of(store, "gathered")) == 3


def test_every_old_version_of_a_growing_dataset_stays_for_ever(tmp_path):
    store = LocalStore(tmp_path)
    worlds = [{f"item{n}": n for n in range(size)} for size in range(1, 6)]
    for asked, world in enumerate(worlds):
        make(store, toy_list, rows=world)
        make(store, toy_gather, asked=str(asked))
    collect(store, keep=1)
    assert len(list(store.keys("versions/items"))) == len(list(store.keys("versions/gathered"))) == 1
    assert len(rows_of(store, "gathered")) == 5
    events = b"".join(store.read(key) or b"" for key in store.keys("lineage/events"))
    assert latest(store, "gathered").manifest.inputs["previous"][0].split("@")[1].encode() in events
    make(store, toy_list, rows=worlds[-1] | {"more": 9})
    grown = make(store, toy_gather, asked="again")
    assert grown.counters["rows_out"] == 6 and grown.counters["history"] == 1, "the requests of what is there"
    check_whole(store)


def test_a_version_that_a_killed_build_left_goes_between_it_is_found_and_named(any_store, monkeypatch):
    first, swap = make(any_store, toy_list, rows={"a": 1}).ref, any_store.swap
    left = make(any_store, toy_list, rows={"a": 1, "b": 2}).ref
    point(any_store, first)
    tick(any_store)
    make(any_store, toy_list, rows={"a": 1, "c": 3})
    point(any_store, first)

    def late(*what: object) -> bool:
        monkeypatch.undo()
        collect(any_store, keep=1)
        return swap(*what)

    monkeypatch.setattr(any_store, "swap", late)
    assert make(any_store, toy_list, rows={"a": 1, "b": 2}).ref == left
    assert any_store.exists(f"versions/items/{left.version}.json")
    assert len(rows_of(any_store, "items")) == 2


CHILD = """
import sys, time
from pathlib import Path
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.s3 import S3Store
where = sys.argv[1]
store = S3Store(where, Path(sys.argv[2]), 1 << 30, lease_s=600) if where.startswith("s3:") else LocalStore(Path(where))
with store.pinned("child", b"{}"):
    print("pinned", flush=True)
    time.sleep(600)
"""


def test_the_pin_of_a_killed_process_goes_with_it(any_store, tmp_path):
    command = [sys.executable, "-c", CHILD, str(any_store), str(tmp_path / "caches")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "pinned\n"
    assert [pin.data for pin in any_store.pins()] == [b"{}"]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert any_store.pins() == [] and not list(any_store.keys("pins"))


def test_a_pin_of_another_machine_lives_as_long_as_it_is_renewed(s3, tmp_path):
    here, there = (S3Store(str(s3), tmp_path / name, CACHE_BYTES, LEASE_S) for name in ("here", "there"))
    s3.create("pins/dead", b'{"owner": "a machine that is gone", "shows": "dead"}')
    with there.pinned("alive", b"alive"):
        for _ in range(2):
            assert [pin.data for pin in here.pins()] == [b"alive"]
        assert here.pins()[0].since <= here.now()
    assert here.pins() == [] and not list(s3.keys("pins"))


def test_a_run_that_begins_while_somebody_deletes_waits(any_store):
    make(any_store, toy_list, rows={"a": 1})
    old = latest(any_store, "items").manifest.ref
    make(any_store, toy_list, rows={"b": 2})
    begun, ended = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        run_job(any_store, plan(any_store, toy_scale, {}, {"items": ["items"]}))
        ended.set()

    thread = threading.Thread(target=run)
    with deletion(any_store, [f"versions/items/{old.version}.json"]):
        thread.start()
        assert begun.wait(WAIT_S) and not ended.wait(0.3)
    thread.join()
    assert rows_of(any_store, "scaled")[0]["value"] == 4


def test_a_mark_that_a_killed_process_left_keeps_nobody_out(tmp_path):
    store = LocalStore(tmp_path)
    store.create("gc/marked.json", b'{"by": "one that is dead", "keys": []}')
    make(store, toy_list, rows={"a": 1})
    assert not store.exists("gc/marked.json")
