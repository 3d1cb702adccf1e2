"""Rates are those of runs that built something, for each row that they built."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from tests.core.toy_steps import make, toy_list, toy_model, toy_scale, toy_tally, toy_total, toy_unique

WORLD = {f"item{n}": n for n in range(6)}


def took(store: LocalStore, step: str) -> list[float]:
    """Seconds of the complete runs of ``step``, in order."""
    events = [json.loads(p.read_bytes()) for p in sorted((store.root / "lineage/events").glob("*-complete.json"))]
    facts = [e["run"]["facets"]["foundry"] for e in events if e["job"]["name"] == step]
    return [fact["duration_s"] for fact in facts]


def test_of_a_map_step_only_the_parts_count_that_a_run_built(store):
    make(store, toy_list, rows=WORLD)
    make(store, toy_scale, effort=2)
    make(store, toy_scale)
    make(store, toy_list, rows=WORLD | {"more": 7})
    make(store, toy_scale, workers=2, effort=2)
    first, reused, more = took(store, "toy_scale")
    rate = Rates.of(store).rate(toy_scale, "scaled")
    assert (rate.n_runs, rate.n_rows, rate.most_rows) == (2, 6 + 1, 6)
    assert rate.seconds == pytest.approx(first + more)
    assert rate.hours_for(14) == pytest.approx(2 * rate.seconds / 3600)
    assert rate.engines == ("local, 2 workers", "local")
    assert rate.source() == "2 runs of up to 6 rows: local, 2 workers and local"
    assert Rates.of(store).peak_bytes(toy_scale, "scaled") > 1 << 20


def test_groups_count_and_the_run_that_only_takes_their_parts_does_not(store):
    make(store, toy_list, rows=WORLD)
    job = plan(store, toy_scale, {})
    for i in range(2):
        run_job(store, job, group=(i, 2))
    run_job(store, job)
    rate = Rates.of(store).rate(toy_scale, "scaled")
    assert (rate.n_runs, rate.n_rows) == (2, 6)
    assert rate.engines == ("local in a group of parts",)


def test_a_run_that_took_partitions_of_another_does_not_count(store):
    make(store, toy_list, rows=WORLD)
    with pytest.raises(TransientError):
        make(store, toy_tally, fail=True)
    make(store, toy_tally)
    assert Rates.of(store).rate(toy_tally, "tallies") is None
    make(store, toy_list, rows={f"other{n}": n for n in range(4)}, max_withdrawn=1)
    make(store, toy_tally, piece_rows=3)
    rate = Rates.of(store).rate(toy_tally, "tallies")
    assert (rate.n_runs, rate.n_rows) == (1, 4)


def test_another_level_is_the_same_work_and_another_size_is_not(store):
    make(store, toy_list, rows=WORLD)
    make(store, toy_model, size="0.5")
    rates = Rates.of(store)
    assert rates.rate(toy_model, "model/0.75/toy").dataset == "model/0.5/toy"
    make(store, toy_model, size="33m")
    rates = Rates.of(store)
    assert rates.rate(toy_model, "model/4b/toy") is rates.rate(toy_model, "model/7.6b/toy") is None
    assert rates.rate(toy_model, "model/33m/toy").n_runs == 1


def test_rows_out_of_rows_in_are_those_of_the_versions(store):
    make(store, toy_list, rows=WORLD | {"twice": 5})
    make(store, toy_scale)
    make(store, toy_unique)
    rates = Rates.of(store)
    assert rates.rows_out(toy_scale, "scaled") == 1
    assert rates.rows_out(toy_unique, "unique") == 6 / 7
    assert rates.row_bytes(toy_scale, "scaled") > 1
    assert rates.rows_out(toy_total, "totals") is rates.row_bytes(toy_total, "totals") is None
    assert rates.rate(toy_total, "totals") is None


def test_an_event_of_a_release_that_did_not_count_rows_built_counts_where_all_were(store):
    make(store, toy_list, rows=WORLD)
    make(store, toy_scale)
    (path,) = [p for p in (store.root / "lineage/events").glob("*-complete.json") if b'"toy_scale"' in p.read_bytes()]
    event = json.loads(path.read_bytes())
    facts = event["run"]["facets"]["foundry"]
    del facts["engine"], facts["workers"], facts["counters"]["rows_built"]
    path.write_text(json.dumps(event))
    rate = Rates.of(store).rate(toy_scale, "scaled")
    assert (rate.n_rows, rate.engines) == (6, ("an older release",))
    facts["counters"]["parts_reused"] = 1
    path.write_text(json.dumps(event))
    (store.root / "lineage.duckdb").unlink()
    assert Rates.of(store).rate(toy_scale, "scaled") is None
