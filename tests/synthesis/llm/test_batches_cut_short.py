"""Batches that somebody cancels, answers in them that the endpoint broke off, and the bill of what is on its way."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.spending import key_of, read_state, spent
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.estimate import of_step
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE, Round
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import put
from tests.synthesis import batch_endpoint
from tests.synthesis.llm import test_batch_rounds
from tests.synthesis.llm.test_batch_rounds import ASKED, TEXT, USD, counted, looked, parts_of

store, there = test_batch_rounds.store, test_batch_rounds.there


def test_an_answer_that_the_endpoint_broke_off_goes_into_the_next_batch(store, there):
    looked(store)
    there.reason = "insufficient_system_resource"
    there.end()
    paid = pytest.approx(5 * USD * SHARE)
    assert looked(store) == Round(failed=5, usd=paid, open=5) and not list(store.keys("responses"))
    there.reason = "stop"
    there.end()
    assert looked(store).answered == 5
    paid_twice = {"requests": 10, "usd": pytest.approx(10 * USD * SHARE)}
    assert counted(store) == paid_twice, "those that were broken off were paid for all the same"


def test_a_broken_answer_that_says_no_tokens_counts_at_its_worst(store, there, monkeypatch):
    monkeypatch.setattr(batch_endpoint, "TOKENS", {})
    looked(store)
    worst = counted(store)["usd"]
    there.reason = "error"
    there.end("cancelled")
    with pytest.raises(InputError, match="0 answers are stored, and 5 requests have none"):
        looked(store)
    assert worst / 2 < counted(store)["usd"]


def test_a_limit_that_is_set_while_a_batch_is_open_counts_what_it_did_cost(store, there, monkeypatch):
    monkeypatch.delenv("FOUNDRY_LLM_PRICE_IN")
    monkeypatch.delenv("FOUNDRY_LLM_PRICE_OUT")
    settings.cache_clear()
    looked(store)
    assert not store.read(key_of("llm")), "what is free and has no limit is counted nowhere"
    monkeypatch.setenv("FOUNDRY_LLM_TOKENS_PER_MONTH", "1000000")
    settings.cache_clear()
    there.end()
    assert looked(store).answered == 5
    state = read_state(store, key_of("llm"))
    assert spent(state, "tokens", "month") == 5 * sum(batch_endpoint.TOKENS.values())


def test_a_batch_that_was_cancelled_is_begun_again_only_when_it_is_asked_for_once_more(store, there):
    looked(store)
    there.end("cancelled", lambda body: "" if "2 volunteers" in json.dumps(body) else "batch_cancelled")
    with pytest.raises(InputError, match="cancelled at 127.*: 1 answers are stored, and 4 requests have none; call it"):
        looked(store)
    assert len(there.batches) == 1 and counted(store) == {"requests": 1, "usd": pytest.approx(USD * SHARE)}
    assert looked(store) == Round(open=4)
    there.end("cancelled")
    assert looked(store) == Round(answered=4, usd=pytest.approx(4 * USD * SHARE)), "it came too late for any"


def test_the_bill_tells_what_is_on_its_way_from_what_would_be_bought(store, there):
    looked(store)
    put(store, PASSAGES, *parts_of(store), [{"passage_id": "p", "doc_id": "d", "text": TEXT, "split": "train"}])
    bill = of_step(store, plan(store, write_needs, ASKED))
    assert (bill.n_requests, bill.n_stored, bill.n_open) == (1, 0, 5)
    assert "5 more requests of write_needs are on their way in batches" in bill.lines()[1]
