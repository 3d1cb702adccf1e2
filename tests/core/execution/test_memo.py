from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.execution.memo import made_once
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import ITEM_ID, ITEMS, latest, make, rows_of, toy_bare, toy_list, toy_scale, toy_unique

PAID = RowSchema("paid", "item_id", (ITEM_ID, Column("response_id", pa.string(), "the answer behind it")))
WORLD = {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Two parts of two rows."""
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows=WORLD)
    return store


def built(outcome) -> tuple[int, int]:
    return outcome.counters["parts_built"], outcome.counters["parts_reused"]


def values(store: LocalStore, dataset: str) -> list[int]:
    return [row["value"] for row in rows_of(store, dataset)]


def test_only_an_added_part_is_computed(store):
    assert built(make(store, toy_scale)) == (2, 0)
    make(store, toy_list, rows=WORLD | {"e": 5})
    outcome = make(store, toy_scale)
    assert built(outcome) == (1, 2)
    assert outcome.counters["scaled_rows"] == 1
    assert (outcome.counters["rows_in"], outcome.counters["rows_out"]) == (5, 5)
    assert values(store, "scaled") == [2, 4, 6, 8, 10]


def test_other_parameters_share_nothing_but_tuning_shares_all(store):
    make(store, toy_scale)
    assert built(make(store, toy_scale, factor=3)) == (2, 0)
    assert make(store, toy_scale, effort=1).reused


def test_a_row_removed_later_travels_and_costs_nothing(store):
    make(store, toy_scale)
    parts = latest(store, "scaled").manifest.parts
    make(store, toy_list, rows={"a": 1, "c": 3, "d": 4})
    outcome = make(store, toy_scale)
    assert built(outcome) == (0, 2) and not outcome.counters["scaled_rows"]
    after = latest(store, "scaled").manifest
    assert after.parts == parts and [r.column for r in after.removals] == ["item_id"] and after.rows == 3
    assert values(store, "scaled") == [2, 6, 8]


def test_a_row_removed_before_is_never_computed(store):
    make(store, toy_list, rows={"a": 1, "c": 3, "d": 4})
    assert make(store, toy_scale).counters["scaled_rows"] == 3
    make(store, toy_list, rows={"a": 1, "d": 4})
    assert built(make(store, toy_scale)) == (0, 2)
    assert values(store, "scaled") == [2, 8]


def test_a_row_that_is_no_longer_removed_is_computed(store):
    whole = latest(store, "items").manifest.ref
    make(store, toy_list, rows={"a": 1, "c": 3, "d": 4})
    make(store, toy_scale)
    outcome = run_job(store, plan(store, toy_scale, {}, {"items": [str(whole)]}))
    assert built(outcome) == (1, 1) and outcome.counters["scaled_rows"] == 2
    assert values(store, "scaled") == [2, 4, 6, 8]


def test_a_removal_by_a_column_that_the_output_lacks_is_computed_exactly(store):
    make(store, toy_scale)
    make(store, toy_unique)
    assert built(make(store, toy_bare)) == (2, 0)
    make(store, toy_list, rows={"a": 1, "c": 3, "d": 4})
    make(store, toy_scale)
    make(store, toy_unique)
    outcome = make(store, toy_bare)
    assert built(outcome) == (1, 1) and outcome.counters["bare_rows"] == 1
    assert values(store, "bare") == [2, 6, 8]
    assert latest(store, "bare").manifest.removals == []


def test_such_a_removal_that_goes_away_is_computed_exactly(store):
    make(store, toy_scale)
    whole = make(store, toy_unique).ref
    make(store, toy_list, rows={"c": 3, "d": 4})
    make(store, toy_scale)
    make(store, toy_unique)
    make(store, toy_bare)
    assert values(store, "bare") == [6, 8]
    run_job(store, plan(store, toy_bare, {}, {"unique": [str(whole)]}))
    assert values(store, "bare") == [2, 4, 6, 8]


def test_two_kinds_of_removals_meet_in_one_part(store):
    """One dataset withdraws an item, a later one a duplicate: both are skipped, whatever the output carries."""
    make(store, toy_list, rows=WORLD | {"e": 2, "f": 6})
    make(store, toy_scale)
    make(store, toy_unique)
    assert values(store, "unique") == [2, 4, 6, 8, 12]
    make(store, toy_bare)
    make(store, toy_list, rows=WORLD | {"e": 2})
    make(store, toy_scale)
    make(store, toy_unique)
    assert {r.column for r in latest(store, "unique").manifest.removals} == {"item_id", "scaled_id"}
    assert built(make(store, toy_bare)) == (1, 2)
    assert values(store, "bare") == values(store, "unique") == [2, 4, 6, 8]


def test_a_lost_output_is_made_again(store):
    make(store, toy_scale)
    manifest = latest(store, "scaled").manifest
    for key in (manifest.parts[0].key, f"versions/scaled/{manifest.id}.json"):
        store.delete(key)
    assert built(make(store, toy_scale)) == (1, 1)
    assert latest(store, "scaled").manifest == manifest


def test_rejects_are_remembered_with_the_part(store):
    make(store, toy_list, rows=WORLD | {"u": 13})
    assert make(store, toy_scale).counters["rows_rejected"] == 1
    make(store, toy_list, rows=WORLD | {"u": 13, "v": 14})
    outcome = make(store, toy_scale)
    assert built(outcome) == (1, 3) and outcome.counters["rows_rejected"] == 1
    assert rows_of(store, "scaled/rejects") == [{"row_id": "u", "reason": "unlucky", "detail": ""}]


def test_groups_fill_the_memo_and_a_later_run_commits(store):
    make(store, toy_list, rows=WORLD | {"e": 5})
    job = plan(store, toy_scale, {})
    for i, n_parts in ((0, 2), (1, 1)):
        outcome = run_job(store, job, group=(i, 2))
        assert (outcome.ref, outcome.reused, built(outcome)) == (None, False, (n_parts, 0))
        assert run_job(store, job, group=(i, 2)).reused
    assert not job.made(store)
    outcome = run_job(store, job)
    assert outcome.ref == job.ref and built(outcome) == (0, 3)
    assert run_job(store, job, group=(0, 2)).ref is None
    assert values(store, "scaled") == [2, 4, 6, 8, 10]


@step(reads={"items": ITEMS}, writes=PAID, kind="map")
def toy_refused(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """Every row costs an answer that is refused."""
    for name in rows["item_id"].to_pylist():
        told = {"request": {"model": "toy"}, "response": {"usage": {"prompt_tokens": 1}}, "cost_usd": 1.0}
        run.store.create(f"responses/an/answer-{name}.json", canonical_json(told))
        run.responses.add(f"answer-{name}")
        run.reject(name, "unreadable")
    return PAID.table()


@step(reads={"items": ITEMS}, writes=PAID, kind="map", dataset="free")
def toy_free(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """No row, and no answer."""
    return PAID.table()


def test_parts_whose_rows_were_all_refused_have_a_receipt_each(store):
    make(store, toy_refused)
    make(store, toy_free)
    assert len(latest(store, "paid").manifest.parts) == 2 and rows_of(store, "paid") == []
    assert query(store, "SELECT n_responses, cost_usd FROM cost_of('paid')").to_pylist() == [
        {"n_responses": len(WORLD), "cost_usd": float(len(WORLD))}
    ]
    assert query(store, "SELECT n_responses FROM cost_of('free')").to_pylist() == [{"n_responses": 0}]
    assert latest(store, "free").table().schema == PAID.arrow


def test_a_table_of_a_body_is_made_once_for_its_words_and_anew_where_it_got_lost(store):
    run = Run(store, Inputs({}), 0, "test", "test", job=plan(store, toy_scale, {}))
    made = [made_once(run, words, lambda n=n: pa.table({"n": [n]})) for n, words in enumerate(("a", "b", "a"))]
    assert [table["n"].to_pylist() for table in made] == [[0], [1], [0]]
    store.delete_all(list(store.keys("objects")))
    assert made_once(run, "a", lambda: pa.table({"n": [3]}))["n"].to_pylist() == [3]
