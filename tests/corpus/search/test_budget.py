"""What searches cost: budgets, rate, resuming after a stop or a kill, and the lineage."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.paid.spending import Ledger, today
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.search_web import search_web
from tests.corpus.search.planned import KEY, QUERIES, QUICK, asked, next_day, planned
from tests.corpus.search.standins import StandInBrave
from tests.stores import go, rows

DAILY = [{"max_requests_per_day": 5}, {"max_usd_per_day": 0.25}]
EVER = [{"max_requests": 5}, {"max_usd": 0.26}]


@pytest.mark.parametrize("limit", DAILY + EVER, ids=lambda limit: next(iter(limit)))
def test_a_spent_budget_stops_cleanly(store: LocalStore, brave, limit):
    planned(store, QUERIES[:6], QUERIES[6:])
    for _ in range(2):
        with pytest.raises(TransientError, match=r"is spent; .*; 7 of 12 searches are left, first 'flood place\d"):
            go(store, search_web, provider="brave", **QUICK, **limit)
        assert brave.billed == 5, "what is spent stays spent"


@pytest.mark.parametrize("limit", DAILY, ids=lambda limit: next(iter(limit)))
def test_every_day_buys_a_further_share_and_nothing_twice(store: LocalStore, brave, limit):
    planned(store, QUERIES[:6], QUERIES[6:])
    for left in ("7 of 12", "2 of 12"):
        with pytest.raises(TransientError, match=left):
            go(store, search_web, provider="brave", **QUICK, **limit)
        next_day(store)
    go(store, search_web, provider="brave", **QUICK, **limit)
    assert sorted(asked(brave)) == sorted(QUERIES)
    assert len(rows(store, "search_results")) == 36


@pytest.mark.parametrize("limit", EVER, ids=lambda limit: next(iter(limit)))
def test_a_raised_budget_buys_only_the_rest(store: LocalStore, brave, limit):
    planned(store, QUERIES)
    with pytest.raises(TransientError, match="raise max_"):
        go(store, search_web, provider="brave", **QUICK, **limit)
    next_day(store)
    with pytest.raises(TransientError, match="7 of 12"):
        go(store, search_web, provider="brave", **QUICK, **limit)
    go(store, search_web, provider="brave", **QUICK, **dict.fromkeys(limit, 100))
    assert sorted(asked(brave)) == sorted(QUERIES)


def test_a_spent_quota_of_the_provider_stops_and_resumes(store: LocalStore, brave):
    brave.quota = 5
    planned(store, QUERIES)
    with pytest.raises(TransientError, match="QUOTA_LIMITED.*7 of 12 searches are left.*every answer so far is kept"):
        go(store, search_web, provider="brave", **QUICK)
    brave.quota = 100
    go(store, search_web, provider="brave", **QUICK)
    assert brave.billed == 12 and len(rows(store, "search_results")) == 36


def test_errors_cost_requests_but_no_dollars(store: LocalStore, brave):
    brave.script += [StandInBrave.error(500, "INTERNAL", "")] * 3
    planned(store, QUERIES[:1])
    outcome = go(store, search_web, provider="brave", requests_per_s=1000.0, attempts=4)
    spent = json.loads(store.read("spending/brave.json") or b"")["days"][today()]
    assert spent == {"requests": 4, "usd": 0.05}
    assert (outcome.counters["search_requests"], outcome.counters["cost_usd"]) == (4, 0.05)


def test_two_processes_share_one_budget_and_exit_with_75(store: LocalStore, brave):
    planned(store, QUERIES[:6], QUERIES[6:])
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "run", "search_web", "--set", "provider=brave"]
    command += ["--set", "max_requests_per_day=7", "--set", "requests_per_s=1000"]
    environment = {"FOUNDRY_STORE": str(store.root), **_environment()}
    both = [
        subprocess.Popen([*command, "--group", f"{i}/2"], env=environment, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    told = [process.communicate(timeout=60)[1] for process in both]
    assert brave.billed == 7 and len(set(asked(brave))) == 7
    assert 75 in {process.returncode for process in both} <= {0, 75}
    said = r"max_requests_per_day=7 is spent; run it again tomorrow \(UTC\); \d of 12 searches are left"
    assert any(re.search(said, text) for text in told)
    assert all(KEY not in t for t in told)


def test_a_killed_run_buys_nothing_twice_but_what_was_on_its_way(store: LocalStore, brave):
    planned(store, QUERIES)
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "run", "search_web", "--set", "provider=brave"]
    command += ["--set", "concurrency=1", "--set", "requests_per_s=20"]
    process = subprocess.Popen(command, env={"FOUNDRY_STORE": str(store.root), **_environment()})
    while len(brave.seen) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    go(store, search_web, provider="brave", **QUICK)
    assert len(rows(store, "search_results")) == 36
    assert set(asked(brave)) == set(QUERIES) and brave.billed <= 13


def test_what_searches_cost_is_in_the_lineage(store: LocalStore, brave):
    planned(store, QUERIES)
    go(store, search_web, provider="brave", **QUICK)
    cost = query(store, "SELECT n_responses, n_unknown, round(cost_usd, 6) AS usd FROM cost_of('search_results')")
    assert cost.to_pylist() == [{"n_responses": 12, "n_unknown": 0, "usd": 0.6}]
    calls = query(store, "SELECT DISTINCT model, created_at IS NOT NULL AS dated FROM llm_calls")
    assert calls.to_pylist() == [{"model": "brave", "dated": True}]


def test_a_long_wait_for_a_turn_is_said(store: LocalStore, brave, monkeypatch, caplog):
    monkeypatch.setattr("pipeline_tasks.corpus.search.asker._WORTH_SAYING_S", 0.1)
    planned(store, QUERIES[:1])
    Ledger(store, "brave").pause(1.0)
    with caplog.at_level("INFO"):
        go(store, search_web, provider="brave", **QUICK)
    assert re.search(r"brave: waiting \d s, as all who ask it through this store do", caplog.text)


def _environment() -> dict[str, str]:
    wanted = ("FOUNDRY_BRAVE_URL", "BRAVE_API_KEY", "FOUNDRY_BRAVE_PRICE", "PATH")
    return {name: os.environ[name] for name in wanted}


def test_requests_keep_the_rate(store: LocalStore, brave):
    planned(store, QUERIES)
    began = time.monotonic()
    go(store, search_web, provider="brave", requests_per_s=20.0, concurrency=8)
    assert time.monotonic() - began >= 11 / 20
