from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.growth_requests import requests_key
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.pointing import move
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.step import NoParams, Step, StepParams, step
from pipeline_tasks.core.store import TEMPORARY, LocalStore
from pipeline_tasks.core.upkeep.gc import HOUR_S, drop, find_garbage, manifests_at
from pipeline_tasks.core.upkeep.sync import _manifests
from pipeline_tasks.core.versions import Version, load_manifest, manifest_key, point
from tests.core.toy_steps import toy_gather, toy_list

THINGS = RowSchema("things", "name", (Column("name", pa.string(), "a name"),))


class Named(StepParams):
    """What there is."""

    name: str


@step(reads={}, writes=THINGS, kind="reduce")
def gc_make(inputs: Inputs, params: Named, run: Run) -> pa.Table:
    """One thing."""
    return THINGS.table([{"name": params.name}])


@step(reads={"things": THINGS}, writes=THINGS, kind="map", dataset="copies")
def gc_copy(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """The same under another name."""
    return THINGS.table([{"name": f"copy of {n}"} for n in rows["name"].to_pylist()])


def make(store: LocalStore, what: Step, **values: object) -> Outcome:
    return run_job(store, plan(store, what, values))


def age(store: LocalStore, hours: float) -> None:
    for path in [store.root, *store.root.rglob("*")]:
        moment = path.stat().st_mtime - hours * HOUR_S
        os.utime(path, (moment, moment))


def everything_readable(store: LocalStore) -> None:
    for key in store.keys("versions"):
        dataset, _, name = key.removeprefix("versions/").rpartition("/")
        assert Version.open(store, Ref(dataset=dataset, version=name[:-5])).table().num_rows == 1


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Two versions of ``things``, a day and more old; ``copies`` is made from the older one."""
    store = LocalStore(tmp_path)
    make(store, gc_make, name="old")
    make(store, gc_copy)
    make(store, gc_make, name="new")
    age(store, 48)
    return store


def test_by_default_every_version_and_the_memo_keep_their_parts(store):
    orphan = write_rows(store, THINGS.table([{"name": "orphan"}]))
    os.utime(store.root / orphan.key, (0, 0))
    sweep = find_garbage(store)
    assert sweep.keys["objects"] == [orphan.key]
    assert sweep.size_bytes["objects"] == orphan.size_bytes
    assert not sweep.keys["versions"] and not sweep.keys["memo"]
    drop(store, sweep)
    assert not (store.root / orphan.key).exists()
    everything_readable(store)


def test_a_young_part_is_never_dropped(store):
    write_rows(store, THINGS.table([{"name": "of a run in progress"}]))
    assert find_garbage(store).keys["objects"] == []


def test_keep_spares_ancestors_and_what_refs_name(store):
    make(store, gc_make, name="newest")
    age(store, 48)
    sweep = find_garbage(store, keep=1)
    drop(store, sweep)
    assert len(sweep.keys["versions"]) == 1
    names = {Version.open(store, Ref.parse(f"things@{p.stem}")).table()["name"][0].as_py() for p in _things(store)}
    assert names == {"old", "newest"}
    everything_readable(store)


def test_a_version_that_a_run_has_just_found_stays_for_the_next_one(store):
    make(store, gc_make, name="newest")
    age(store, 48)
    middle = make(store, gc_make, name="new")
    assert middle.reused
    point(store, make(store, gc_make, name="newest").ref)
    assert not find_garbage(store, keep=1).keys["versions"]
    age(store, 48)
    assert find_garbage(store, keep=1).keys["versions"] == [manifest_key(middle.ref)]


def _things(store: LocalStore) -> list[Path]:
    return list((store.root / "versions/things").glob("*.json"))


def test_keep_s_spares_what_is_young_and_its_ancestors(store):
    make(store, gc_make, name="newest")
    make(store, gc_make, name="last")
    age(store, 48)
    make(store, gc_make, name="today")
    ages = {path: path.stat().st_mtime for path in _things(store)}
    for days, dropped in ((5, 0), (3, 1)):
        sweep = find_garbage(store, keep_s=days * 24 * HOUR_S)
        assert len(sweep.keys["versions"]) == dropped, ages
    both = find_garbage(store, keep=5, keep_s=3 * 24 * HOUR_S)
    assert both.keys["versions"] == [], "what either keeps stays"
    drop(store, sweep)
    assert len(_things(store)) == 4
    everything_readable(store)


def test_what_is_written_anew_after_the_sweep_stays(store):
    orphan = write_rows(store, THINGS.table([{"name": "orphan"}]))
    os.utime(store.root / orphan.key, (0, 0))
    sweep = find_garbage(store)
    assert sweep.keys["objects"] == [orphan.key]
    made = make(store, gc_make, name="orphan").ref
    drop(store, sweep)
    assert Version.open(store, made).table()["name"].to_pylist() == ["orphan"]


def test_no_rule_drops_an_answer_or_an_event(store):
    kept = {"responses/aa/aa.json": b"{}", "spending/brave.json": b"{}"}
    for key, data in kept.items():
        store.create(key, data)
    age(store, 9999)
    events = set(store.keys("lineage/events"))
    drop(store, find_garbage(store, keep=1, keep_s=0, memo=True, grace_s=0))
    assert all(store.exists(key) for key in kept)
    assert set(store.keys("lineage/events")) == events != set()


def test_memo_is_given_up_only_when_asked(store):
    make(store, gc_copy)
    age(store, 48)
    for path in (store.root / "versions/copies").glob("*.json"):
        path.unlink()
    (store.root / "refs/copies/latest").unlink()
    assert find_garbage(store).keys["objects"] == []
    sweep = find_garbage(store, memo=True)
    assert (len(sweep.keys["memo"]), len(sweep.keys["objects"])) == (2, 2)
    drop(store, sweep)
    assert make(store, gc_copy).counters["parts_built"] == 1


def test_a_memo_record_without_its_output_goes(store):
    (record,) = store.keys("memo")
    copies = Version.open(store, Ref.parse("copies")).manifest
    (store.root / copies.parts[0].key).unlink()
    assert find_garbage(store).keys["memo"] == [record]


def test_leftovers_of_killed_runs_go_by_age(store):
    old, young = (store.root / TEMPORARY / name for name in ("old", "young"))
    for path in (old, young):
        path.write_text("half a part")
    os.utime(old, (0, 0))
    checkpoint = store.scratch("training") / "checkpoint"
    checkpoint.write_text("x")
    age_days = time.time() - 3 * 24 * HOUR_S
    os.utime(checkpoint, (age_days, age_days))
    sweep = find_garbage(store)
    assert (sweep.paths["temporary"], sweep.paths["scratch"]) == ([old], [])
    for path in (checkpoint, checkpoint.parent):
        os.utime(path, (0, 0))
    drop(store, find_garbage(store))
    assert young.exists() and not old.exists() and not checkpoint.parent.exists()


def test_a_manifest_nobody_can_read_stops_everything(store):
    store.create("versions/things/0000000000000000.json", b"half")
    with pytest.raises(InputError, match="not a manifest"):
        find_garbage(store)


def test_what_a_version_answers_goes_with_it(store):
    make(store, toy_list, rows={"a": 1})
    for asked in ("monday", "tuesday"):
        ref = make(store, toy_gather, asked=asked).ref
    noted = store.root / requests_key(ref)
    assert noted.exists() and not find_garbage(store).keys["requests"]
    (store.root / manifest_key(ref)).unlink()
    sweep = find_garbage(store)
    assert sweep.keys["requests"] == [requests_key(ref)]
    drop(store, sweep)
    assert not noted.exists()


def test_of_a_growing_version_what_its_last_request_read_stays_and_not_what_it_was_made_of(tmp_path):
    store = LocalStore(tmp_path)
    for value in (1, 2):
        items = make(store, toy_list, rows={"a": value}).ref
        gathered = make(store, toy_gather).ref
    (first,) = load_manifest(store, gathered).inputs["items"]
    assert first != str(items)
    age(store, 48)
    sweep = find_garbage(store, keep=1)
    assert sweep.keys["versions"] == [manifest_key(Ref.parse(first))]
    drop(store, sweep)
    make(store, toy_list, rows={"a": 3})
    age(store, 48)
    drop(store, find_garbage(store, keep=1))
    assert store.exists(manifest_key(items)), "behind gathered, though no longer the newest"
    assert [moved.ref for moved in move(store, gathered, ancestors=True)] == [items, gathered]
    assert make(store, toy_gather).ref == gathered
    grown = run_job(store, plan(store, toy_gather, {"withdraw": ("a",), "max_withdrawn": 1}))
    assert load_manifest(store, grown.ref).inputs["previous"] == [str(gathered)]


def test_where_an_earlier_release_dropped_what_the_last_request_read_what_a_version_was_made_of_stays(tmp_path):
    store = LocalStore(tmp_path)
    made_of = make(store, toy_list, rows={"a": 1}).ref
    gathered = make(store, toy_gather).ref
    later = make(store, toy_list, rows={"a": 2}).ref
    assert make(store, toy_gather).ref == gathered
    make(store, toy_list, rows={"a": 3})
    store.delete(manifest_key(later))
    age(store, 48)
    drop(store, find_garbage(store, keep=1))
    assert [moved.ref for moved in move(store, gathered, ancestors=True)] == [made_of, gathered]


def test_of_locks_only_old_ones_of_answers_go(store):
    names = ("locks/answer-old", "locks/answer-young", "locks/0123456789abcdef")
    for name in names:
        store.create(name, b"")
    for name in (names[0], names[2]):
        os.utime(store.root / name, (0, 0))
    drop(store, find_garbage(store))
    assert list(store.keys("locks")) == [names[2], names[1]]


def test_the_scratch_folder_of_a_step_that_goes_on_after_a_week_stays(store):
    checkpoint = store.scratch("training") / "checkpoint"
    checkpoint.write_text("x")
    for path in (checkpoint, checkpoint.parent):
        os.utime(path, (0, 0))
    sweep = find_garbage(store)
    assert sweep.paths["scratch"] == [checkpoint.parent]
    time.sleep(0.1)  # a disk's times are as coarse as the kernel's tick
    store.scratch("training")
    assert find_garbage(store).paths["scratch"] == []
    drop(store, sweep)
    assert checkpoint.exists()


def test_a_part_of_many_versions_is_in_memory_once(tmp_path):
    store, rows = LocalStore(tmp_path), {}
    for n in range(4):
        rows |= {f"r{n}": n}
        make(store, toy_list, rows=rows)
    for read in (manifests_at(store, store.keys("versions")), _manifests(store, ())[0]):
        parts = [part for manifest in read.values() for part in manifest.parts]
        assert len(read) == 4 and len({id(part) for part in parts}) == len(set(parts)) < len(parts)
        assert all(manifest.to_bytes() == store.read(manifest_key(manifest.ref)) for manifest in read.values())


def test_a_manifest_that_was_deleted_since_it_was_listed_is_not_a_torn_one(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    refs = [make(store, toy_list, rows={f"r{n}": n}).ref for n in range(2)]
    listed = list(store.keys("versions"))
    store.delete(manifest_key(refs[0]))
    monkeypatch.setattr(store, "keys", lambda prefix: iter(listed))
    assert list(manifests_at(store, listed)) == [refs[1]]
    assert list(_manifests(store, ())[0]) == [manifest_key(refs[1])]
    store.replace(manifest_key(refs[0]), b"{")
    for read in (lambda: manifests_at(store, listed), lambda: _manifests(store, ())):
        with pytest.raises(InputError, match="not a manifest"):
            read()
