"""Answers bought by the file: nothing is paid twice, and the step cannot tell how they came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.cli.batch import batch_command
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.paid.endpoint import pace
from pipeline_tasks.core.paid.spending import LimitReached, key_of, read_state, spent
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.llm import batch_files
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE, Round, buy_ahead
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put, reasons
from tests.synthesis.batch_endpoint import TOKENS, BatchEndpoint

ASKED = {"llm": "m", "api": "chat", "intents": ["qa"], "concurrency": 2}
SETS = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in ASKED.items()]
TEXT = "{} volunteers fill sandbags at the fairground before the river rises in spring, and the Lions Club brings soup."
USD = (TOKENS["prompt_tokens"] * 2.0 + TOKENS["completion_tokens"] * 8.0) / 1e6
"""What an answer costs that is asked for alone."""


def written(body: dict[str, Any]) -> str:
    return json.dumps({"need": "A neighbor wants to know where helpers prepare for high water."})


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Five passages in two parts."""
    store = LocalStore(tmp_path / "store")
    each = [{"passage_id": f"p{i}", "doc_id": "d", "text": TEXT.format(i + 2), "split": "train"} for i in range(5)]
    put(store, PASSAGES, each[:3], each[3:])
    return store


@pytest.fixture
def there(monkeypatch) -> Iterator[BatchEndpoint]:
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 0.01)
    with BatchEndpoint(written) as endpoint:
        named = {"OPENAI_BASE_URL": endpoint.url, "FOUNDRY_LLM_PRICE_IN": "2", "FOUNDRY_LLM_PRICE_OUT": "8"}
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        yield endpoint


def looked(store: LocalStore, **more: Any) -> Round:
    return buy_ahead(store, plan(store, write_needs, ASKED | more))


def counted(store: LocalStore) -> dict[str, float]:
    state = read_state(store, key_of("llm"))
    return {unit: spent(state, unit, "month") for unit in ("requests", "usd")}


def test_a_step_finds_what_a_batch_has_brought_and_asks_nobody(store, there):
    assert looked(store) == Round(open=5) == looked(store), "it is on its way, and not begun again"
    assert not list(store.keys("responses")) and counted(store)["usd"] > 5 * USD, "at its worst until it has ended"
    there.end()
    assert looked(store) == Round(answered=5, usd=pytest.approx(5 * USD * SHARE))
    assert counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD * SHARE)}
    outcome = go(store, write_needs, **ASKED)
    assert (outcome.counters["rows_out"], outcome.counters["llm_answers_reused"]) == (5, 5)
    assert not there.alone and set(there.billed.values()) == {1}
    assert not there.files.keys() & {batch["input_file_id"] for batch in there.batches.values()}, "deleted there"


def test_no_file_is_larger_than_can_be_read_again(store, there, monkeypatch):
    """It is, by what it asks and by what may be answered."""
    monkeypatch.setattr(batch_files, "MOST_BYTES", 1_000)
    assert looked(store).open == 5 and len(there.batches) == 5
    there.end()
    assert looked(store).answered == 5


def test_answers_cost_what_they_did_when_they_were_asked_for(store, there, monkeypatch):
    looked(store)
    monkeypatch.setenv("FOUNDRY_LLM_PRICE_IN", "2000")
    settings.cache_clear()
    there.end()
    assert looked(store) == Round(answered=5, usd=pytest.approx(5 * USD * SHARE))


def test_another_steps_batch_is_left_to_that_step(store, there):
    looked(store)
    (key,) = store.keys("batches")
    theirs = json.loads(store.read(key) or b"") | {"name": "theirs", "step": "write_pairs"}
    store.delete(key)
    store.replace("batches/theirs.json", json.dumps(theirs).encode())
    there.end()
    assert looked(store).answered == 0 and store.read("batches/theirs.json")
    assert not list(store.keys("responses"))


def test_an_answer_is_the_same_however_it_was_fetched(store, there, tmp_path):
    looked(store)
    there.end()
    looked(store)
    one_by_one = LocalStore(tmp_path / "other")
    put(one_by_one, PASSAGES, *parts_of(store))
    go(one_by_one, write_needs, **ASKED)
    keys = list(store.keys("responses"))
    assert keys == list(one_by_one.keys("responses")) and len(keys) == 5
    for key in keys:
        ours, theirs = (json.loads(one.read(key) or b"") for one in (store, one_by_one))
        assert ours.pop("cost_usd") == pytest.approx(SHARE * theirs.pop("cost_usd")) and ours == theirs


def parts_of(store: LocalStore) -> list[list[dict]]:
    return [part.to_pylist() for part in Version.open(store, Ref.parse("passages")).parts()]


def test_what_came_too_late_is_asked_in_the_next_batch_and_the_rest_is_kept(store, there):
    looked(store)
    there.end("expired", lambda body: "batch_expired" if "2 volunteers" in json.dumps(body) else "")
    found = looked(store)
    assert (found.answered, found.failed, found.open) == (4, 1, 1)
    there.end()
    assert looked(store).answered == 1 and looked(store) == Round()
    assert set(there.billed.values()) == {1} and sorted(there.asked.values()) == [1, 1, 1, 1, 2]


def test_where_nothing_was_answered_the_same_requests_are_another_batch(store, there):
    looked(store)
    there.end("expired", lambda body: "batch_expired")
    assert looked(store) == Round(failed=5, open=5)
    there.end("failed")
    with pytest.raises(InputError, match="refused a batch of 5 requests"):
        looked(store)
    assert looked(store) == Round(open=5) and len(there.batches) == 3
    there.end()
    assert looked(store).answered == 5 and looked(store) == Round() and set(there.billed.values()) == {1}


def test_a_request_that_fails_twice_is_left_to_the_step(store, there):
    for _ in range(2):
        looked(store)
        there.end(failing=lambda body: "server_error" if "3 volunteers" in json.dumps(body) else "")
    assert looked(store) == Round(failed=1), "no third batch"
    go(store, write_needs, **ASKED)
    assert len(there.alone) == 1 and "3 volunteers" in json.dumps(there.alone)


@pytest.mark.parametrize("torn", [b"{half", b"[]", b'{"id": null}'])
def test_where_nobody_can_say_what_failed_before_it_is_said_and_tried_again(store, there, caplog, torn):
    looked(store)
    there.end(failing=lambda body: "server_error" if "3 volunteers" in json.dumps(body) else "")
    looked(store)
    store.replace("batches/failed.json", torn)
    there.end(failing=lambda body: "invalid_prompt")
    assert looked(store) == Round(failed=1, open=1), "its second try counts as its first"
    assert "batches/failed.json cannot be read" in caplog.text


def test_a_prompt_that_is_refused_for_its_content_is_a_reject_and_asked_once(store, there):
    looked(store)
    there.end(failing=lambda body: "content_filter" if "4 volunteers" in json.dumps(body) else "")
    looked(store)
    go(store, write_needs, **ASKED)
    assert reasons(store, "needs") == {"llm_refused_request": 1} and not there.alone


def test_a_batch_whose_beginning_was_not_heard_of_is_found_and_not_begun_twice(store, there):
    there.cut = 1
    assert looked(store) == Round(open=5)
    assert len(there.batches) == 1
    there.end()
    assert looked(store).answered == 5 and set(there.billed.values()) == {1}


def test_a_process_that_was_killed_before_it_knew_the_batch_finds_it_again(store, there, tmp_path):
    script = (
        "import os, signal\n"
        "from pipeline_tasks.core.paid.endpoint.batch_api import BatchApi\n"
        "start = BatchApi.start\n"
        "def killed(*given):\n    start(*given)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "BatchApi.start = killed\n"
        "from pipeline_tasks.cli.batch import batch_command\n"
        f"batch_command('write_needs', None, {SETS!r})\n"
    )
    environment = os.environ | {"FOUNDRY_STORE": str(store.root)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == -signal.SIGKILL
    there.end()
    assert looked(store).answered == 5 and len(there.batches) == 1 and set(there.billed.values()) == {1}
    assert counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD * SHARE)}


def test_an_answer_that_cannot_be_read_is_asked_for_once_more_in_a_further_batch(store, there):
    unread = "I would be glad to help with that."
    there.answer = lambda body: written(body) if unread in json.dumps(body) else unread
    looked(store)
    there.end()
    assert looked(store) == Round(answered=5, usd=pytest.approx(5 * USD * SHARE), open=5)
    there.end()
    assert looked(store).answered == 5 and looked(store) == Round()
    counters = go(store, write_needs, **ASKED).counters
    assert (counters["rows_out"], counters["repairs"]) == (5, 5) and not there.alone


def test_a_batch_that_the_endpoint_refuses_costs_nothing_and_is_said(store, there):
    looked(store)
    there.end("failed")
    with pytest.raises(InputError, match="refused a batch of 5 requests: line 1 is no request"):
        looked(store)
    assert counted(store) == {"requests": 0, "usd": 0}


@pytest.mark.parametrize("torn", [b"", b'{"name": "half', b"[]", b"{}"])
def test_a_batch_file_that_cannot_be_read_is_told_and_nothing_is_paid_twice(store, there, torn):
    looked(store)
    (key,) = store.keys("batches")
    whole, before = store.read(key), counted(store)
    there.end()
    store.replace(key, torn)
    for _ in range(2):
        with pytest.raises(InputError, match=f"{key} is no batch .*: copy it from a backup, or delete it"):
            looked(store)
    assert store.read(key) == torn and counted(store) == before and len(there.batches) == 1
    store.replace(key, whole)
    assert looked(store).answered == 5 and set(there.billed.values()) == {1}
    assert counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD * SHARE)}


def test_without_its_file_a_batch_on_its_way_is_found_again_and_counted_once_more(store, there):
    looked(store)
    worst = counted(store)["usd"]
    for key in store.keys("batches"):
        store.delete(key)
    assert looked(store) == Round(open=5) and len(there.batches) == 1
    assert counted(store) == {"requests": 10, "usd": pytest.approx(2 * worst)}
    there.end()
    assert looked(store).answered == 5 and set(there.billed.values()) == {1}


def test_no_batch_is_begun_that_might_pass_the_budget(store, there):
    with pytest.raises(LimitReached, match="max_run_usd=0.0001 is spent"):
        looked(store, max_run_usd=0.0001)
    assert not there.batches
    looked(store)
    worst = counted(store)["usd"]
    other = LocalStore(store.root.parent / "small")
    put(other, PASSAGES, *parts_of(store))
    with pytest.raises(LimitReached):
        looked(other, max_run_usd=worst / 2)
    assert 0 < counted(other)["usd"] <= worst / 2, "as many as fit are begun"


def test_a_batch_that_another_run_takes_in_is_settled_for_the_run_that_began_it(store, there):
    looked(store)
    there.end()
    other = plan(store, write_needs, ASKED | {"again": "now"})
    assert buy_ahead(store, other).answered == 5
    state = read_state(store, key_of("llm"))
    assert [*state["runs"]] == [plan(store, write_needs, ASKED).ref.version]


def test_the_command_exits_with_75_until_the_answers_are_there(store, there, monkeypatch, capsys):
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    with pytest.raises(TransientError, match="5 requests of write_needs are on their way, 0 of them answered"):
        batch_command("write_needs", None, SETS)
    there.end()
    batch_command("write_needs", None, SETS)
    told = capsys.readouterr().out
    assert "5 answers for" in told and "next: foundry run write_needs" in told
    with pytest.raises(InputError, match="'crawl' asks no LLM"):
        batch_command("crawl")
