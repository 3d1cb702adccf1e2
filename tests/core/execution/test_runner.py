from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from tests.core.together import together
from tests.core.toy_steps import (
    check_whole,
    latest,
    make,
    rows_of,
    toy_bare,
    toy_draw,
    toy_list,
    toy_model,
    toy_scale,
    toy_total,
    toy_unique,
    toy_weigh,
)

WORLD = {f"item{n}": n % 5 for n in range(9)} | {"unlucky": 13, "bad": -1}
ROOT = Path(__file__).parents[3]


def run_chain(store: LocalStore, workers: int = 1) -> list[str]:
    outcomes = [make(store, toy_list, rows=WORLD), make(store, toy_scale, workers=workers)]
    outcomes += [make(store, what) for what in (toy_unique, toy_bare, toy_total, toy_model, toy_weigh, toy_draw)]
    return [str(outcome.ref) for outcome in outcomes]


def chain_of(i: int, root: Path) -> list[str]:
    return run_chain(LocalStore(root))


def model_of(i: int, root: Path) -> tuple[str, bool, int]:
    outcome = make(LocalStore(root), toy_model, effort=20)
    return str(outcome.ref), outcome.reused, outcome.counters["resumed"]


def events(store: LocalStore) -> list[dict]:
    return [json.loads(store.read(key) or b"") for key in store.keys("lineage/events")]


def test_same_inputs_no_work(store):
    first = make(store, toy_list, rows=WORLD), make(store, toy_scale), make(store, toy_unique)
    objects = list(store.keys("objects"))
    again = make(store, toy_list, rows=WORLD), make(store, toy_scale), make(store, toy_unique)
    assert [o.ref for o in again] == [o.ref for o in first]
    assert all(o.reused for o in again) and not any(o.reused for o in first)
    assert list(store.keys("objects")) == objects
    assert all("rows_in" in o.counters for o in first) and not any("rows_in" in o.counters for o in again[1:])
    for one, two in zip(first, again, strict=True):
        names = ("rows_out", "rows_rejected")
        assert [one.counters[n] for n in names] == [two.counters[n] for n in names]


def test_two_stores_and_several_workers_hold_the_same_bytes(store, tmp_path):
    other = LocalStore(tmp_path / "other")
    assert run_chain(store) == run_chain(other, workers=2)
    assert check_whole(store) == check_whole(other)
    assert list(store.keys("objects")) == list(other.keys("objects"))
    assert len(check_whole(store)) == 8


@pytest.mark.parametrize("n", [2, 8])
def test_processes_that_run_the_same_steps_at_once_make_one_version(store, tmp_path, n):
    calm = LocalStore(tmp_path / "calm")
    expected = run_chain(calm)
    assert together(n, chain_of, store.root) == [expected] * n
    assert check_whole(store) == check_whole(calm)
    assert not list((store.root / "tmp").iterdir())
    assert {event["eventType"] for event in events(store)} == {"START", "COMPLETE"}


def test_processes_that_train_the_same_model_at_once_train_it_once(store):
    make(store, toy_list, rows=WORLD)
    made = together(4, model_of, store.root)
    assert len({ref for ref, _, _ in made}) == 1
    assert sorted(reused for _, reused, _ in made) == [False, True, True, True]
    assert not any(resumed for _, _, resumed in made)


def test_a_worker_ends_with_a_parent_that_is_killed(store):
    make(store, toy_list, rows=WORLD)
    code = (
        "from pathlib import Path; from pipeline_tasks.core.store import LocalStore\n"
        "from tests.core.toy_steps import make, toy_scale\n"
        "if __name__ == '__main__':\n"
        f"    make(LocalStore(Path({str(store.root)!r})), toy_scale, workers=2, effort=600)\n"
    )
    script = store.root / "script.py"
    script.write_text(code)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(script)], env=env, start_new_session=True)
    while not list((store.root / "locks").glob("*")) and parent.poll() is None:
        time.sleep(0.02)
    assert members(parent.pid) > {parent.pid}
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while members(parent.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = members(parent.pid)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def members(group: int) -> set[int]:
    """Living processes of a process group."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == group and state != "Z":
            found.add(int(stat.parent.name))
    return found


def test_a_keeps_step_identifies_and_never_copies(store):
    run_chain(store)
    scaled, unique = latest(store, "scaled").manifest, latest(store, "unique").manifest
    assert unique.parts == scaled.parts
    assert sorted(row["value"] for row in rows_of(store, "unique")) == [0, 2, 4, 6, 8]
    assert {row["reason"] for row in rows_of(store, "unique/rejects")} == {"duplicate_value"}
    assert latest(store, "unique/rejects").manifest.rows == 4
    assert rows_of(store, "totals") == [{"total_id": "all", "value": 20}]


def test_model_files_are_stored_by_logical_name(store):
    make(store, toy_list, rows=WORLD)
    outcome = make(store, toy_model)
    manifest = latest(store, "model/33m/toy").manifest
    assert [part.name for part in manifest.parts] == ["config/card.json", "weights.bin"]
    assert (manifest.rows_schema, manifest.key, manifest.rows) == ("files", "name", 0)
    assert json.loads(store.read(manifest.parts[1].key) or b"") == {"name": "weights.bin", "rows": 10}
    make(store, toy_weigh)
    assert rows_of(store, "sizes/33m")[0]["value"] == manifest.size_bytes
    assert outcome.ref == manifest.ref
    assert not list((store.root / "scratch").iterdir())


def test_what_is_left_in_the_scratch_folder_is_found_after_a_failure(store):
    make(store, toy_list, rows=WORLD)
    for resumed in (0, 1):
        with pytest.raises(TransientError):
            make(store, toy_model, fail="later")
        counters = events(store)[-1]["run"]["facets"]["foundry"]
        assert counters["error"] == "TransientError: told to fail: later"
        assert len(list((store.root / "scratch").glob("*/checkpoint"))) == 1, resumed


def test_seeds_come_from_the_part_and_not_from_the_clock(store, tmp_path):
    other = LocalStore(tmp_path / "other")
    for each in (store, other):
        make(each, toy_list, rows=WORLD)
        make(each, toy_draw)
    drawn = [row["value"] for row in rows_of(store, "draws")]
    assert drawn == [row["value"] for row in rows_of(other, "draws")]
    assert len(set(drawn)) == len(drawn) == 5


def test_events_tell_what_was_read_made_and_counted(store):
    make(store, toy_list, rows=WORLD)
    outcome = make(store, toy_scale)
    start, complete = events(store)[-2:]
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] and complete["job"]["name"] == "toy_scale"
    assert [i["name"] for i in complete["inputs"]] == ["items"]
    (made,) = complete["outputs"]
    assert made["facets"]["version"]["datasetVersion"] == outcome.ref.version
    facts = complete["run"]["facets"]["foundry"]
    assert facts["counters"] == dict(outcome.counters) and facts["params"] == {"factor": 2}
    assert (facts["reused"], facts["counters"]["rows_rejected"]) == (False, 1)
    assert facts["peak_memory_bytes"] > 1 << 20 and facts["duration_s"] >= 0
    make(store, toy_scale)
    assert events(store)[-1]["run"]["facets"]["foundry"]["reused"] is True


def test_a_failure_is_told_and_lists_nothing(store):
    make(store, toy_list, rows=WORLD)
    with pytest.raises(ValueError, match="told to fail"):
        make(store, toy_model, fail="bug")
    fail = events(store)[-1]
    assert (fail["eventType"], fail["outputs"]) == ("FAIL", [])
    assert fail["run"]["facets"]["foundry"]["error"] == "ValueError: told to fail: bug"
    assert list(store.keys("versions/model")) == []


def test_a_reduce_step_has_no_groups(store):
    with pytest.raises(InputError, match="drop --group"):
        run_job(store, plan(store, toy_list, {"rows": {}}), group=(0, 2))


@pytest.mark.parametrize(("n", "said"), [(0, "names nothing"), (2, "'items' holds 2 versions, one was expected")])
def test_a_map_step_maps_over_exactly_one_version(store, n, said):
    given = [str(make(store, toy_list, rows={"a": value}).ref) for value in range(n)]
    with pytest.raises(InputError, match=said):
        run_job(store, plan(store, toy_scale, {}, {"items": given}))
