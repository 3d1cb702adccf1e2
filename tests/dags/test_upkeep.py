"""The tasks of maintenance on a real store."""

import os

import pytest
from airflow.sdk.exceptions import AirflowFailException
from foundry_airflow.operators import open_store
from foundry_airflow.upkeep import CompactOperator, GarbageOperator
from test_operators import run

pytestmark = pytest.mark.usefixtures("toys")


def aged(days: float):
    """The store, as if everything in it had been written so many days earlier."""
    store = open_store()
    for path in [store.root, *store.root.rglob("*")]:
        moment = path.stat().st_mtime - days * 24 * 3600
        os.utime(path, (moment, moment))
    return store


def versions(store):
    return len(list(store.keys("versions/numbers")))


def test_it_says_what_would_go_and_drops_it_only_where_asked(store_folder):
    for parts in (1, 2, 3):
        run("count", values={"parts": parts})
    store = aged(days=10)
    nothing = GarbageOperator(task_id="gc").execute({})
    assert nothing["versions"] == nothing["objects"] == 0
    told = GarbageOperator(task_id="gc", keep=1).execute({})
    assert told["versions"] > 0 and versions(store) == 3
    assert GarbageOperator(task_id="gc", keep=1, keep_days=30, really=True).execute({})["versions"] == 0
    assert GarbageOperator(task_id="gc", keep=1, really=True).execute({}) == told
    assert versions(store) == 1
    assert run("count", values={"parts": 3}).startswith("numbers@")


def test_a_manifest_that_cannot_be_read_fails_the_task_for_good():
    open_store().create("versions/numbers/0000000000000000.json", b"half")
    with pytest.raises(AirflowFailException, match="nothing was dropped"):
        GarbageOperator(task_id="gc", really=True).execute({})


def test_a_folder_has_nothing_to_put_together():
    run("count", values={"parts": 3})
    assert CompactOperator(task_id="compact", really=True).execute({}) == {"parts": 0, "packs": 0}
