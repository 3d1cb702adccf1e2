"""Batches that a step meets while they are open, and such as an endpoint has lost."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.synthesis.batches import Round
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go
from tests.synthesis import test_batches
from tests.synthesis.test_batches import ASKED, looked

store, there = test_batches.store, test_batches.there


def test_a_step_does_not_buy_what_is_on_its_way(store, there):
    looked(store)
    with pytest.raises(InputError, match=r"is on its way in a batch: wait .*batches/[0-9a-f]{64}\.json"):
        go(store, write_needs, **ASKED)
    assert not there.alone
    there.end()
    looked(store)
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 5 and set(there.billed.values()) == {1}


def test_answers_are_taken_in_though_the_file_of_requests_is_gone(store, there):
    looked(store)
    (begun,) = there.batches.values()
    there.end()
    del there.files[begun["input_file_id"]]
    assert looked(store).answered == 5
    assert go(store, write_needs, **ASKED).counters["llm_answers_reused"] == 5 and not there.alone


def test_a_batch_whose_answers_are_gone_is_named(store, there):
    looked(store)
    (begun,) = there.batches.values()
    there.end()
    del there.files[begun["output_file_id"]]
    with pytest.raises(InputError, match=r"the answers of batch batch-0 are lost: .*\(404\); delete batches/"):
        looked(store)


def test_a_batch_that_was_not_begun_is_not_taken_for_an_earlier_one_of_the_same_requests(store, there):
    looked(store)
    there.end("expired", lambda body: "batch_expired")
    assert looked(store) == Round(failed=5, open=5)
    (key,) = (key for key in store.keys("batches"))
    there.batches.popitem()  # as if it had been killed before it was begun
    store.replace(key, json.dumps(json.loads(store.read(key) or b"") | {"id": ""}).encode())
    assert looked(store) == Round(open=5) and len(there.batches) == 2
    there.end()
    assert looked(store).answered == 5 and set(there.billed.values()) == {1}
