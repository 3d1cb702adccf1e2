"""Batches that somebody cancels, answers in them that the endpoint broke off, and the bill of what is on its way."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.estimate import of_step
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE, Round
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import put
from tests.synthesis.llm import test_batch_rounds
from tests.synthesis.llm.test_batch_rounds import ASKED, TEXT, USD, counted, looked, parts_of

store, there = test_batch_rounds.store, test_batch_rounds.there


def test_an_answer_that_the_endpoint_broke_off_goes_into_the_next_batch(store, there):
    looked(store)
    there.reason = "insufficient_system_resource"
    there.end()
    assert looked(store) == Round(failed=5, open=5) and not list(store.keys("responses"))
    there.reason = "stop"
    there.end()
    assert looked(store).answered == 5


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
