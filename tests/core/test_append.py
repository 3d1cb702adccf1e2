from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.append import appended
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import ITEMS, TOTALS, check_whole, latest, make, rows_of, toy_list, toy_scale, toy_total

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
    make(store, toy_list, rows={"a": 1, "c": 33})
    after = latest(store, "items").manifest
    assert items(store) == {"a": 1, "c": 33} and after.rows == 2
    assert after.parts[:2] == before.parts and [p.rows for p in after.parts[2:]] == [1]
    assert [(r.column, r.first, r.last, r.part.rows) for r in after.removals] == [("item_id", 0, 2, 2)]


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
    make(store, toy_list, rows={})
    assert items(store) == {}


def test_rejects_of_the_world_are_kept(store):
    make(store, toy_list, rows=FIRST | {"bad": -5, "d": 4})
    (reject,) = rows_of(store, "items/rejects")
    assert reject == {"row_id": "bad", "reason": "negative", "detail": "value -5"}


def test_the_same_key_twice_is_an_error(store):
    twice = ITEMS.table([{"item_id": "a", "value": 1}, {"item_id": "a", "value": 2}])
    with pytest.raises(InputError, match="two rows have item_id 'a'; keep one"):
        appended(store, plan(store, toy_list, {"rows": {}}), [twice])


def test_a_step_without_part_rows_cannot_append(store):
    make(store, toy_scale)
    job = plan(store, toy_total, {}, {"bare": []})
    with pytest.raises(InputError, match="parameter part_rows"):
        appended(store, job, [TOTALS.table()])
