"""A whole step against an endpoint that fails at a fifth of its requests, in every way that endpoints do."""

from __future__ import annotations

import json

import pytest

from benchmarks.faulty_llm import FAULTS, PRICE_IN, PRICE_OUT, REFUSALS, FaultyLLM
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.paid.endpoint import pace
from pipeline_tasks.core.paid.spending import LimitReached, key_of, read_state, spent
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.llm import acceptance
from pipeline_tasks.synthesis.llm.client import CHECK, SHORT
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put, reasons, rejects, rows

ASKED = {"llm": "m", "intents": ["qa"], "concurrency": 8, "timeout_s": 60.0}
HANGS = ASKED | {"timeout_s": 2.0}
"""Where the endpoint hangs. On a busy machine others may take as long: then they are asked again, too."""
SIREN = "siren at the river dam sounds for three minutes before the gates open, so anglers must leave at once"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Pauses that nobody asked for are short."""
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def endpoint(monkeypatch):
    """Starts a paid stand-in and points the settings at it."""
    started: list[FaultyLLM] = []

    def start(share: float = 0.2, faults: tuple[str, ...] = FAULTS, **more) -> FaultyLLM:
        started.append(FaultyLLM(share, faults, **({"retry_after_s": 0.2} | more)).__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", started[-1].url)
        monkeypatch.setenv("FOUNDRY_LLM_PRICE_IN", str(PRICE_IN))
        monkeypatch.setenv("FOUNDRY_LLM_PRICE_OUT", str(PRICE_OUT))
        settings.cache_clear()
        return started[-1]

    yield start
    for one in started:
        one.__exit__()


def passages(store: LocalStore, n: int) -> None:
    each = [
        {"passage_id": f"p{i:04}", "doc_id": "d", "text": f"Number {i} {SIREN}.", "split": "train"} for i in range(n)
    ]
    put(store, PASSAGES, each)


def stored(store: LocalStore) -> dict[str, float]:
    """Dollars of every stored answer, by the name of its request."""
    return {
        key.rpartition("/")[2].removesuffix(".json"): json.loads(data or b"")["cost_usd"]
        for key, data in store.read_all(store.keys("responses"))
    }


def counted(store: LocalStore) -> float:
    return spent(read_state(store, key_of("llm")), "usd", "month")


def test_every_row_ends_as_an_answer_or_a_reject_and_all_that_is_paid_is_stored(endpoint, store):
    there = endpoint()
    passages(store, 150)
    counters = go(store, write_needs, **HANGS).counters
    by_endpoint = reasons(store, "needs")["llm_refused_request"]
    assert counters["rows_out"] + counters["rows_rejected"] == 150
    assert {kind for kind, n in there.met.items() if n} == set(FAULTS)
    assert by_endpoint == sum(there.draw(key, 0) in REFUSALS for key in there.asked) > 0
    bills = stored(store)
    (check,) = set(there.billed) - set(bills)
    assert check.startswith(CHECK) and set(bills) < set(there.billed) and set(there.billed.values()) == {1}
    assert 0 < there.usd - sum(bills.values()) < 0.01 * there.usd
    assert counters["cost_usd"] == pytest.approx(there.usd) and counters["llm_requests"] == 150 - by_endpoint + 1
    assert counted(store) >= there.usd - 1e-9, "what may have been billed stays counted"
    assert there.most_at_once <= 8


def test_one_refused_request_does_not_end_the_step(endpoint, store):
    there = endpoint()
    kinds = {f"Number 3 {SIREN}": "http_400", f"Number 7 {SIREN}": "http_413"}
    there.draw = lambda key, attempt: next((kind for text, kind in kinds.items() if text in there.prompts[-1]), "")
    passages(store, 10)
    outcome = go(store, write_needs, **ASKED)
    found = rejects(store, "needs")
    assert {key: (row["reason"], row["detail"]) for key, row in found.items()} == {
        "p0003": ("llm_refused_request", "qa: 400: this prompt is refused (http_400)"),
        "p0007": ("llm_refused_request", "qa: 413: this prompt is refused (http_413)"),
    }
    asked = sum(there.asked.values())
    assert go(store, write_needs, **ASKED).ref == outcome.ref and sum(there.asked.values()) == asked
    go(store, write_needs, **ASKED, again="2026-11-22")
    assert there.prompts.count(SHORT) == 2, "once a run in which a row was refused"
    assert sum(there.asked.values()) == asked + len(found) + 1, "only what was refused is asked again"


def test_an_endpoint_that_refuses_everything_refuses_no_row(endpoint, store):
    there = endpoint(1.0, ("http_400",))
    passages(store, 2 * acceptance.FIRST_REFUSED)
    with pytest.raises(InputError, match=r"refuses even a short prompt for 'm'.*this prompt is refused"):
        go(store, write_needs, **ASKED)
    assert not list(store.keys("memo")) and not list(store.keys("versions/needs"))
    there.share = 1e-9
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 2 * acceptance.FIRST_REFUSED


@pytest.mark.parametrize("n", [3, acceptance.FIRST_REFUSED + 5])
def test_refused_rows_alone_are_theirs_only_if_the_endpoint_accepts_a_short_prompt(endpoint, store, n):
    there = endpoint(1.0, ("http_400",))
    passages(store, n)
    with pytest.raises(InputError, match="refuses even a short prompt"):
        go(store, write_needs, **ASKED)
    there.draw = lambda key, attempt: "" if key.startswith(CHECK) else "http_400"
    go(store, write_needs, **ASKED)
    assert reasons(store, "needs") == {"llm_refused_request": n}


@pytest.mark.parametrize("answered", [3, 70])
def test_an_account_that_runs_dry_in_the_middle_refuses_no_row(endpoint, store, answered):
    there = endpoint()
    there.draw = lambda key, attempt: "http_400" if len(there.billed) >= answered else ""
    passages(store, 80)
    with pytest.raises(InputError, match=r"refuses even a short prompt for 'm': 400.*account there, .* OPENAI_API_KEY"):
        go(store, write_needs, **ASKED | {"concurrency": 1})
    assert not list(store.keys("memo")) and not list(store.keys("versions/needs"))
    there.draw = lambda key, attempt: ""
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 80 and set(there.billed.values()) == {1}


def test_an_answer_to_a_later_row_is_no_sign_that_an_account_has_not_run_dry(endpoint, store):
    """It may have come before: rows are asked side by side, and judged in their order."""
    there, refused = endpoint(), []

    def dry_for_one(key: str, attempt: int) -> str:
        if key.startswith(CHECK) or (len(there.billed) == 40 and not refused):
            refused.append(key)
            return "http_400"
        return ""

    there.draw = dry_for_one
    passages(store, 80)
    with pytest.raises(InputError, match="refuses even a short prompt"):
        go(store, write_needs, **ASKED | {"concurrency": 1})
    assert len(there.billed) == 79 and not list(store.keys("memo"))


@pytest.mark.parametrize("fault", ["cut", "schema", "http_500", "hang"])
def test_a_failed_try_is_made_again_and_billed_once(endpoint, store, fault):
    there = endpoint(0.5, (fault,))
    passages(store, 8)
    counters = go(store, write_needs, **(HANGS if fault == "hang" else ASKED)).counters
    kind = {"cut": "cut_off", "schema": "bad_answer", "http_500": "500", "hang": "timeout"}[fault]
    found = {name: n for name, n in counters.items() if name.startswith("retries_")}
    assert set(found) <= {f"retries_{kind}", "retries_bad_answer"}
    assert 0 < there.met[fault] <= sum(found.values()) and (fault == "hang" or sum(found.values()) == there.met[fault])
    assert counters["llm_requests"] == 8 and set(there.billed.values()) == {1}


@pytest.mark.parametrize("alone", [False, True])
def test_a_row_that_always_fails_is_a_reject_whether_or_not_others_are_left_to_ask(endpoint, store, alone):
    there = endpoint()
    there.draw = lambda key, attempt: "http_500" if key == unlucky else ""
    passages(store, 4)
    unlucky = ""
    go(store, write_needs, **ASKED)
    unlucky = next(iter(there.billed))
    store.delete(f"responses/{unlucky[:2]}/{unlucky}.json")
    if alone:
        for key in list(store.keys("memo")):
            store.delete(key)
    else:
        passages(store, 5)
    go(store, write_needs, **ASKED, again="once more" if alone else "")
    (row,) = rejects(store, "needs").values()
    assert row["reason"] == "llm_no_answer" and "answered 500: broken in 8 attempts" in row["detail"]
    assert not alone or there.prompts.count(SHORT) == 1


def test_an_endpoint_that_answers_nobody_is_tried_again_later(endpoint, store):
    endpoint(1.0, ("http_500",))
    passages(store, 4)
    with pytest.raises(TransientError, match="answered 500: broken in all of 8 attempts"):
        go(store, write_needs, **ASKED)


def test_a_request_that_waits_to_be_asked_again_leaves_its_place_to_others(endpoint, store, monkeypatch):
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 2.0)
    there = endpoint()
    there.draw = lambda key, attempt: "http_500" if len(there.prompts) == 1 else ""
    passages(store, 4)
    go(store, write_needs, **ASKED | {"concurrency": 1})
    again = there.prompts.index(there.prompts[0], 1)
    assert again > 1 and there.most_at_once == 1


def test_too_many_requests_pause_all_workers_and_let_fewer_ask(endpoint, store, caplog):
    caplog.set_level("INFO")
    there = endpoint(0.05, ("http_429",), retry_after_s=1.0)
    passages(store, 30)
    counters = go(store, write_needs, **ASKED).counters
    assert counters["retries_429"] == there.met["http_429"] > 0 and counters["rows_in"] == 30
    assert "write_needs part 1: 127.0.0.1" in caplog.text
    assert "has too many requests: waiting 1 s, then 4 at once" in caplog.text


def test_a_pause_beyond_patience_ends_with_what_was_answered_kept(endpoint, store):
    there = endpoint(retry_after_s=7200)
    there.draw = lambda key, attempt: "http_429" if len(there.prompts) > 30 else ""
    passages(store, 60)
    with pytest.raises(TransientError, match="asks to wait 7[12]\d\d s.*longer than patience_s=60") as caught:
        go(store, write_needs, **ASKED, patience_s=60)
    assert caught.value.exit_code == 75
    assert 0 < len(stored(store)) == len(there.billed) < 60


def test_what_a_failed_run_spent_is_in_the_lineage(endpoint, store):
    there = endpoint(retry_after_s=7200)
    there.draw = lambda key, attempt: "http_429" if len(there.prompts) > 30 else ""
    passages(store, 60)
    with pytest.raises(TransientError):
        go(store, write_needs, **ASKED, patience_s=60)
    told = query(
        store,
        "SELECT c.name, c.value FROM counters c JOIN steps s USING (run_id) WHERE s.status = 'failed' ORDER BY ALL",
    ).to_pylist()
    found = {row["name"]: row["value"] for row in told}
    assert found["cost_usd"] == pytest.approx(there.usd) and there.usd > 0
    assert found["llm_requests"] == len(there.billed)
    calls = query(store, "SELECT sum(cost_usd) AS usd FROM llm_calls").to_pylist()
    assert calls[0]["usd"] == pytest.approx(there.usd)


def test_a_budget_is_refused_before_it_is_passed_and_says_how_to_go_on(endpoint, store):
    there = endpoint(0.2, ("http_400", "http_500", "cut", "schema"), delay_s=0.01)
    passages(store, 80)
    budget = 0.02
    with pytest.raises(LimitReached, match=r"max_run_usd=0\.02 is spent.*foundry run write_needs") as caught:
        go(store, write_needs, **ASKED, max_run_usd=budget)
    assert caught.value.exit_code == 2
    assert f"--set max_run_usd={2 * budget}" in str(caught.value) and "--set llm=m" in str(caught.value)
    assert 0 < there.usd <= budget
    bought = len(stored(store))
    with pytest.raises(LimitReached):
        go(store, write_needs, **ASKED, max_run_usd=budget)
    assert there.usd <= budget, "another try has no budget of its own"
    go(store, write_needs, **ASKED, max_run_usd="none")
    assert len(rows(store, "needs")) + sum(reasons(store, "needs").values()) == 80
    assert set(there.billed.values()) == {1} and len(stored(store)) > bought


@pytest.mark.parametrize("unit", ["USD", "TOKENS"])
def test_a_budget_of_the_month_names_the_day_when_the_next_begins(endpoint, store, monkeypatch, unit):
    there = endpoint(1e-9)
    name = f"FOUNDRY_LLM_{unit}_PER_MONTH"
    most = 0.01 if unit == "USD" else 5000
    monkeypatch.setenv(name, str(most))
    settings.cache_clear()
    passages(store, 60)
    with pytest.raises(LimitReached, match=rf"{name}=.* is spent; a new month begins on \d{{4}}-\d\d-01 \(UTC\)"):
        go(store, write_needs, **ASKED)
    assert 0 < (there.usd if unit == "USD" else there.usd * 1e6 / PRICE_OUT) <= most


def test_a_price_that_nobody_knows_is_asked_for(store, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://llm.example.org/v1")
    settings.cache_clear()
    passages(store, 1)
    with pytest.raises(InputError, match="FOUNDRY_LLM_PRICE_IN and FOUNDRY_LLM_PRICE_OUT to .* or to free"):
        go(store, write_needs, **ASKED)
    settings.cache_clear()


def test_refusals_are_not_asked_again_by_a_killed_run_as_if_the_endpoint_were_wrong(endpoint, store):
    there = endpoint(0.3, tuple(REFUSALS))
    passages(store, 100)
    go(store, write_needs, **ASKED)
    for key in list(store.keys("memo")):
        store.delete(key)
    go(store, write_needs, **ASKED, sample_rate=0.99999)
    assert there.prompts.count(SHORT) == 2, "once a run, and the rows are not refused for it"
    assert reasons(store, "needs")["llm_refused_request"] > acceptance.FIRST_REFUSED
