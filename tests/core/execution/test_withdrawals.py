from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, point
from tests.core.toy_steps import ITEMS, latest, make, toy_gather, toy_list, toy_scale

MANY = {f"item{n:03}": n for n in range(100)}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=MANY)
    return store


def first(n: int) -> dict[str, int]:
    return dict(list(MANY.items())[:n])


def test_an_empty_list_empties_no_dataset_unless_it_is_allowed(tmp_path):
    store = LocalStore(tmp_path / "small")
    make(store, toy_list, rows={"a": 1, "b": 2, "c": 3})
    before = latest(store, "items").manifest
    with pytest.raises(InputError, match=r"toy_list would withdraw 3 of the 3 rows of items@\w+, .*: a, b, c; see"):
        make(store, toy_list, rows={})
    assert latest(store, "items").manifest == before
    make(store, toy_list, rows={}, max_withdrawn=1)
    assert latest(store, "items").manifest.rows == 0
    assert make(store, toy_list, rows={}).reused, "nothing goes that is not there"


def test_a_large_share_stops_and_names_the_first_that_would_go(store):
    assert make(store, toy_list, rows=first(80)).counters["rows_out"] == 80
    with pytest.raises(InputError) as error:
        make(store, toy_list, rows=first(63))
    assert str(error.value).startswith("toy_list would withdraw 17 of the 80 rows of items@")
    assert "max_withdrawn=0.2 allows: item063, item064, item065, item066, item067 and 12 more" in str(error.value)
    assert "--set max_withdrawn=1" in str(error.value) and error.value.exit_code == 2
    assert make(store, toy_list, rows=first(63), max_withdrawn=0.25).counters["rows_out"] == 63


def test_ten_rows_may_go_whatever_their_share(store):
    make(store, toy_list, rows=first(12), max_withdrawn=1)
    assert make(store, toy_list, rows=first(2)).counters["rows_out"] == 2


def test_any_number_of_rows_may_change(store):
    changed = {item: value + 1 for item, value in MANY.items()}
    assert make(store, toy_list, rows=changed).counters["rows_out"] == 100
    with pytest.raises(InputError, match="withdraw 100 of the 100"):
        make(store, toy_list, rows={f"other{n}": n for n in range(100)})


def test_the_limit_is_no_part_of_the_version(store, tmp_path):
    assert make(store, toy_gather).reused is False
    assert make(store, toy_gather, max_withdrawn=1).reused
    strict, loose = (plan(store, toy_list, {"rows": {}, "max_withdrawn": share}) for share in (0, 1))
    assert strict.ref == loose.ref


@step(reads={}, writes=ITEMS, kind="reduce", grows=True, dataset="endless")
def without_limit(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """One item."""
    return ITEMS.table([{"item_id": "a", "value": 1}])


def test_a_step_that_grows_without_a_limit_is_told(store):
    with pytest.raises(InputError, match="without_limit.*GrowthParams"):
        make(store, without_limit)


def test_what_was_refused_of_a_row_goes_with_it(tmp_path):
    store, fresh = LocalStore(tmp_path / "store"), LocalStore(tmp_path / "fresh")
    make(store, toy_list, rows={"a": 13, "b": 1, "c": 13}, part_rows=3)
    before = make(store, toy_scale)
    assert before.counters["rows_rejected"] == 2
    make(store, toy_list, rows={"b": 1, "c": 13}, part_rows=3)
    after = make(store, toy_scale)
    assert [after.counters[f"rows_{name}"] for name in ("built", "in", "out", "rejected")] == [0, 2, 1, 1]
    items = latest(store, "items").manifest
    for part in items.objects:
        with fresh.temporary() as path:
            store.copy_to(part.key, path)
            fresh.create_from(part.key, path)
    commit(fresh, items)
    point(fresh, items.ref)
    anew = make(fresh, toy_scale)
    assert after.ref == anew.ref
    ours, theirs = (load_manifest(one, anew.ref).rejects for one in (store, fresh))
    assert ours == theirs and latest(store, "scaled").rejects().table()["row_id"].to_pylist() == ["c"]
