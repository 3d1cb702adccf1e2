"""Batches that fail for the endpoint's own reasons, and how long it is remembered that a row failed."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.paid.batch_notes import FAILED
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE, Round
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put
from tests.synthesis.llm import test_batch_rounds
from tests.synthesis.llm.test_batch_rounds import ASKED, TEXT, USD, counted, looked

store, there = test_batch_rounds.store, test_batch_rounds.there


def of_one(code: str):
    return lambda body: code if "3 volunteers" in json.dumps(body) else ""


@pytest.mark.parametrize("code", ["server_error", "rate_limit_exceeded"])
def test_what_the_server_lacks_is_no_failure_of_rows_and_is_asked_later(store, there, code):
    for n in range(1, 4):
        assert looked(store) == Round(open=5) and len(there.batches) == n
        there.end(failing=lambda body: code)
        with pytest.raises(TransientError, match=rf"127.* answered none of 5 requests of batches \({code}\)"):
            looked(store)
        assert len(there.batches) == n and counted(store) == {"requests": 0, "usd": 0}
    looked(store)
    there.end()
    assert looked(store).answered == 5 and looked(store) == Round() and not there.alone


def test_many_rows_that_fail_while_others_are_answered_are_given_up_after_two_batches(store, there):
    texts = [TEXT.format(f"{n} {'faulty' * (n < 20)}") for n in range(60)]
    put(store, PASSAGES, [{"passage_id": f"p{n}", "text": text, "split": "train"} for n, text in enumerate(texts)])
    assert looked(store) == Round(open=60)
    there.end(failing=lambda body: "server_error" if "faulty volunteers" in json.dumps(body) else "")
    assert looked(store) == Round(answered=40, failed=20, usd=pytest.approx(40 * USD * SHARE), open=20)
    there.end(failing=lambda body: "server_error")
    assert looked(store) == Round(failed=20) and looked(store) == Round()


def test_what_comes_too_often_is_asked_again_at_half_the_price_while_others_are_answered(store, there):
    looked(store)
    there.end(failing=of_one("rate_limit_exceeded"))
    assert looked(store) == Round(answered=4, failed=1, usd=pytest.approx(4 * USD * SHARE), open=1)
    there.end(failing=of_one("rate_limit_exceeded"))
    with pytest.raises(TransientError, match="answered none of 1 requests"):
        looked(store)
    assert looked(store) == Round(open=1)


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_an_account_that_is_used_up_is_said_and_nothing_is_begun(store, there, code):
    for _ in range(2):
        looked(store)
        there.end(failing=of_one(code))
        with pytest.raises(InputError, match=rf"account at 127.* is used up \({code}\): . answers .*; pay there"):
            looked(store)
        assert counted(store) == {"requests": 4, "usd": pytest.approx(4 * USD * SHARE)}
    assert len(list(store.keys("responses"))) == 4 and looked(store) == Round(open=1)
    there.end()
    assert looked(store).answered == 1 and go(store, write_needs, **ASKED).counters["llm_answers_reused"] == 5


def test_what_failed_is_asked_by_batches_again_where_that_is_asked_for_and_forgotten_once_it_is_answered(store, there):
    for _ in range(2):
        looked(store)
        there.end(failing=of_one("invalid_prompt"))
    assert looked(store) == Round(failed=1) and looked(store) == Round()
    assert looked(store, again="2") == Round(open=1)
    there.end(failing=of_one("invalid_prompt"))
    assert looked(store, again="2") == Round(failed=1, open=1)
    assert sorted(json.loads(store.read(FAILED) or b"").values()) == [1, 2]
    there.end()
    assert looked(store, again="2").answered == 1
    assert json.loads(store.read(FAILED) or b"") == {}
