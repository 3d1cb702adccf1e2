from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import Version, load_manifest
from tests.core.toy_steps import ITEMS, check_whole, latest, make, rows_of, toy_gather, toy_list, toy_scale
from tests.stores import bare_run

FIRST = {"a": 1, "b": 2, "c": 3}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=FIRST)
    return store


def items(store: LocalStore) -> dict[str, int]:
    return {row["item_id"]: row["value"] for row in rows_of(store, "items")}


def test_unchanged_is_the_same_version(store):
    before = latest(store, "items").manifest
    outcome = make(store, toy_list, rows=dict(reversed(FIRST.items())))
    assert outcome.ref == before.ref and outcome.reused
    assert outcome.counters["rows_out"] == 3 and outcome.counters["parts_reused"] == 2
    assert len(check_whole(store)) == 1


def test_new_rows_come_in_a_new_part_only(store):
    before = latest(store, "items").manifest
    outcome = make(store, toy_list, rows=FIRST | {"d": 4})
    after = latest(store, "items").manifest
    assert outcome.ref != before.ref and after.ref == outcome.ref
    assert after.parts[:2] == before.parts and [p.rows for p in after.parts] == [2, 1, 1]
    assert after.removals == [] and after.inputs == {"previous": [str(before.ref)]}


def test_gone_and_changed_rows_are_removed_and_the_old_parts_stay(store):
    before = latest(store, "items").manifest
    make(store, toy_list, rows={"a": 11, "c": 3})
    after = latest(store, "items").manifest
    assert items(store) == {"a": 11, "c": 3} and after.rows == 2
    assert after.parts[:1] == before.parts[1:] and [p.rows for p in after.parts[1:]] == [1] and not after.removals
    make(store, toy_list, rows=FIRST | {"d": 4})
    before = latest(store, "items").manifest
    make(store, toy_list, rows=FIRST | {"b": 22, "d": 44})
    after = latest(store, "items").manifest
    assert items(store) == FIRST | {"b": 22, "d": 44} and after.rows == 4
    assert after.parts[:2] == before.parts[:2] and [p.rows for p in after.parts] == [1, 2, 2]
    assert [(r.column, r.first, r.last, r.part.rows) for r in after.removals] == [("item_id", 0, 2, 2)]


def test_what_changes_each_week_leaves_no_parts_and_the_collection_frees_them(store):
    for week in range(5):
        make(store, toy_list, rows=FIRST | {"d": 10 + week})
        make(store, toy_scale)
        assert make(store, toy_list, rows=FIRST | {"d": 10 + week}).reused
    after = latest(store, "items").manifest
    assert [part.rows for part in after.parts] == [2, 1, 1] and not after.removals
    assert make(store, toy_list, rows=FIRST).counters["rows_out"] == 3
    assert [part.rows for part in latest(store, "items").manifest.parts] == [2, 1]
    assert make(store, toy_scale).counters["parts_built"] == 0
    drop(store, find_garbage(store, keep=1, memo=True, grace_s=0))
    assert len(list(store.keys("objects"))) == 4 and len(rows_of(store, "scaled")) == 3


@pytest.mark.parametrize("seed", range(6))
def test_whatever_comes_and_goes_every_part_has_a_row_and_every_removal_takes_one(store, seed):
    chance = random.Random(seed)
    for _ in range(12):
        kept = {key: value for key, value in items(store).items() if chance.random() < 0.6}
        new = {chance.choice("abcdefghijkl"): chance.randrange(100, 999) for _ in range(chance.randrange(4))}
        rows = kept | new or FIRST
        make(store, toy_list, rows=rows, max_withdrawn=1)
        make(store, toy_scale)
        version = latest(store, "items")
        assert items(store) == rows and version.manifest.rows == len(rows)
        assert all(part.num_rows for part in version.parts())
        for removal in version.manifest.removals:
            one = Version(store, version.manifest.model_copy(update={"removals": [removal]}))
            assert len(one.removed) and 0 <= removal.first < removal.last <= len(version.manifest.parts)
        scaled = {row["item_id"]: row["value"] for row in rows_of(store, "scaled")}
        assert scaled == {key: 2 * value for key, value in rows.items()}
        assert make(store, toy_list, rows=rows).reused


def test_a_key_comes_back_and_goes_again(store):
    ids = {latest(store, "items").manifest.id}
    for rows in ({"a": 1}, FIRST, {"b": 2}, FIRST | {"a": 11}):
        ids.add(make(store, toy_list, rows=rows).ref.version)
        assert items(store) == rows
        make(store, toy_scale)
        assert {r["item_id"]: r["value"] for r in rows_of(store, "scaled")} == {k: 2 * v for k, v in rows.items()}
    assert len(ids) == 5


def test_everything_may_go_and_come(tmp_path):
    store = LocalStore(tmp_path / "empty")
    make(store, toy_list, rows={})
    assert latest(store, "items").manifest.parts == []
    assert make(store, toy_list, rows={}).reused
    make(store, toy_list, rows=FIRST)
    assert items(store) == FIRST
    make(store, toy_list, rows={}, max_withdrawn=1)
    make(store, toy_scale)
    assert items(store) == {} and rows_of(store, "scaled") == []
    assert [part.rows for part in latest(store, "items").manifest.parts] == [0]
    make(store, toy_list, rows=FIRST)
    assert items(store) == FIRST and [part.rows for part in latest(store, "items").manifest.parts] == [2, 1]


def test_rejects_of_the_world_are_kept(store):
    make(store, toy_list, rows=FIRST | {"bad": -5, "d": 4})
    (reject,) = rows_of(store, "items/rejects")
    assert reject == {"row_id": "bad", "reason": "negative", "detail": "value -5"}


def test_rejects_are_kept_where_no_row_changed(store):
    before = latest(store, "items").manifest
    outcome = make(store, toy_list, rows=FIRST | {"bad": -5})
    after = latest(store, "items").manifest
    assert not outcome.reused and after.parts == before.parts and after.inputs == {"previous": [str(before.ref)]}
    assert [row["row_id"] for row in rows_of(store, "items/rejects")] == ["bad"]
    assert make(store, toy_list, rows=FIRST | {"bad": -5}).reused


def test_the_same_key_twice_is_an_error(store):
    twice = [{"item_id": "a", "value": 1}, {"item_id": "a", "value": 2}]
    with pytest.raises(InputError, match="two rows have item_id 'a'; keep one"):
        list(difference(bare_run(store), ITEMS, twice, 10))


def test_the_same_request_is_answered_without_the_body(store):
    first = make(store, toy_gather, asked="monday")
    assert first.counters["rows_out"] == 3 and "history" in first.counters
    again = make(store, toy_gather, asked="monday")
    assert again.reused and again.ref == first.ref and "history" not in again.counters


def test_a_request_that_changes_nothing_is_remembered_too(store):
    first = make(store, toy_gather, asked="monday")
    other = make(store, toy_gather, asked="tuesday")
    assert other.reused and other.ref == first.ref and other.counters["history"] == 1
    assert "history" not in make(store, toy_gather, asked="tuesday").counters
    assert make(store, toy_gather, asked="wednesday").counters["history"] == 2
    make(store, toy_list, rows=FIRST | {"d": 4})
    grown = make(store, toy_gather, asked="wednesday")
    assert grown.ref != first.ref and grown.counters["history"] == 3
    asked = [params["asked"] for params in _history(store)]
    assert asked == ["wednesday", "wednesday", "tuesday", "monday"]


def _history(store: LocalStore) -> list[dict]:
    run = bare_run(store)
    run.previous = latest(store, "gathered")
    return list(run.requests())


def test_an_older_request_grows_from_what_came_after_it(store):
    first = make(store, toy_gather, asked="monday")
    second = make(store, toy_gather, asked="tuesday", withdraw=("a",))
    assert [row["item_id"] for row in rows_of(store, "gathered")] == ["b", "c"]
    third = make(store, toy_gather, asked="monday")
    assert latest(store, "gathered").manifest.inputs["previous"] == [str(second.ref)]
    assert third.ref not in (first.ref, second.ref)
    assert {row["item_id"] for row in rows_of(store, "gathered")} == {"a", "b", "c"}


def test_an_older_request_of_older_inputs_is_answered_by_what_it_made_and_latest_stays(store):
    older = plan(store, toy_gather, {"asked": "monday"})
    first = run_job(store, older)
    make(store, toy_list, rows=FIRST | {"d": 4})
    second = make(store, toy_gather, asked="monday")
    for _ in range(2):
        again = run_job(store, older)
        assert again.reused and again.ref == first.ref
    assert latest(store, "gathered").manifest.ref == second.ref


def test_a_withdrawn_row_leaves_the_new_version_only(store):
    first = make(store, toy_gather)
    second = make(store, toy_gather, withdraw=("b",))
    before, after = (load_manifest(store, o.ref) for o in (first, second))
    assert (before.rows, after.rows) == (3, 2)
    assert after.parts == [before.parts[0], before.parts[2]] and not after.removals
    assert make(store, toy_gather, withdraw=("b",)).ref == second.ref


def test_another_code_version_starts_afresh(store):
    make(store, toy_gather, asked="monday")
    manifest = latest(store, "gathered").manifest
    old = manifest.model_copy(update={"code_version": "0", "id": "0" * 16})
    store.create("versions/gathered/0000000000000000.json", old.to_bytes())
    store.replace("refs/gathered/latest", b"0" * 16)
    assert "previous" not in load_manifest(store, make(store, toy_gather, asked="monday").ref).inputs


@pytest.mark.parametrize(
    ("values", "complaint"),
    [({"repeat": True}, "two rows have item_id 'a'"), ({"withdraw": ("x",)}, "withdraws item_id 'x'")],
)
def test_a_body_that_contradicts_the_version_before_is_told(store, values, complaint):
    make(store, toy_gather)
    with pytest.raises(InputError, match=complaint):
        make(store, toy_gather, **values)


def test_a_commit_that_was_not_pointed_to_is_found_again(store):
    first = make(store, toy_gather)
    make(store, toy_list, rows=FIRST | {"d": 4})
    second = make(store, toy_gather)
    store.replace("refs/gathered/latest", first.ref.version.encode())
    assert run_job(store, plan(store, toy_gather, {})).ref == second.ref
    assert latest(store, "gathered").manifest.ref == Ref(dataset="gathered", version=second.ref.version)
