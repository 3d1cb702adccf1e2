"""What a version cost: every run that did work for it, whether it built one or not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pipeline_tasks import datasets as d
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.lineage.fold import DATABASE
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, GrowthParams, StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.sections.costs import cost_section, duration
from pipeline_tasks.report.subject import lineage
from tests.core.lineage import toy

FAILING: list[str] = []
"""At these passages the endpoint is gone."""


class Asked(StepParams):
    """How an LLM is asked."""

    prompt: str = "one"


@step(reads={"passages": From(d.PASSAGES, dataset="passages")}, writes=d.PASSAGES, kind="map", dataset="paid")
def toy_pay(rows: pa.Table, params: Asked, run: Run) -> pa.Table:
    """A dollar and ten tokens a passage, also of those whose part fails then."""
    run.count("cost_usd", rows.num_rows)
    run.count("prompt_tokens", 10 * rows.num_rows)
    if {*FAILING} & {*rows["passage_id"].to_pylist()}:
        raise ValueError("the endpoint is gone")
    return rows


@step(reads={}, writes=d.URLS, kind="reduce", grows=True, always=True, dataset="bought")
def toy_buy(inputs: Inputs, params: GrowthParams, run: Run) -> Iterator[pa.Table]:
    """An address more each time for a dollar, which is paid before it can fail."""
    run.count("cost_usd")
    if FAILING:
        raise ValueError("the endpoint is gone")
    n = run.previous.manifest.rows if run.previous else 0
    yield d.URLS.table([{"url_id": f"u{n}", "url": f"https://example.org/u{n}", "source": "toy"}])


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Four passages in two parts."""
    store = LocalStore(tmp_path)
    toy.corpus(store, "a", "b", "c", "e")
    FAILING.clear()
    return store


def pay(store: LocalStore, *, group: tuple[int, int] | None = None, **values: str) -> str:
    """One run of ``toy_pay``."""
    return str(run_job(store, plan(store, toy_pay, values), group=group).ref)


def fails(run, *given, **named) -> None:
    """A run that fails at the passage of d-c."""
    FAILING.append("p-d-c")
    with pytest.raises(ValueError, match="the endpoint is gone"):
        run(*given, **named)
    FAILING.clear()


def cost_of(store: LocalStore, ref: str, name: str) -> tuple[str, str, str, str]:
    """Runs, failed ones, dollars and prompt tokens of a step behind ``ref``."""
    with lineage(store) as ask:
        table = cost_section(ask, ref).table
    (row,) = [found for row in table.rows if (found := dict(zip(table.head, row, strict=True)))["step"] == name]
    return row["runs"], row["failed"], row["dollars"], row["prompt tokens"]


def spread(store: LocalStore) -> str:
    """Two groups of parts, of which one fails before it succeeds, and the run that makes a version of them."""
    pay(store, group=(0, 2))
    fails(pay, store, group=(1, 2))
    pay(store, group=(1, 2))
    pay(store, group=(1, 2))
    return pay(store)


def test_runs_over_groups_of_parts_and_those_that_failed_are_paid(store):
    fails(pay, store, prompt="never made")
    ref = spread(store)
    fails(pay, store, prompt="other")
    other = pay(store, prompt="other")
    assert pay(store) == ref, "what is there costs nothing"
    assert cost_of(store, ref, "toy_pay") == ("4", "1", "6.00", "60"), "two passages a part; the second part twice"
    assert cost_of(store, other, "toy_pay") == ("2", "1", "6.00", "60")


def test_events_of_older_releases_do_not_tell_what_was_asked_for(store):
    """There the next version of the same step and code has what failed before it."""
    ref = spread(store)
    for path in (store.root / "lineage" / "events").iterdir():
        event = json.loads(path.read_text())
        del event["run"]["facets"]["foundry"]["request_id"]
        path.write_text(json.dumps(event))
    (store.root / DATABASE).unlink(missing_ok=True)
    assert cost_of(store, ref, "toy_pay") == ("4", "1", "6.00", "60")


def test_a_growing_dataset_is_asked_the_same_and_each_version_has_the_failures_before_it(store):
    found = []
    for n_failures in (1, 2):
        for _ in range(n_failures):
            fails(toy.make, store, toy_buy)
        found.append(str(toy.make(store, toy_buy).ref))
    first, second = (cost_of(store, ref, "toy_buy")[:3] for ref in found)
    assert first == ("2", "1", "2.00")
    assert second == ("5", "3", "5.00"), "what it grew from is behind it"


def test_no_minute_has_sixty_seconds():
    told = [duration(seconds) for seconds in (8.12, 59.96, 119.6, 200, 3599.8)]
    assert told == ["8.1 s", "1 min 00 s", "2 min 00 s", "3 min 20 s", "1.0 h"]
