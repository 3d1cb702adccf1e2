"""Batches that a step meets while they are open or about to be begun, and such as an endpoint has lost or takes not."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from pipeline_tasks import datasets
from pipeline_tasks.core.erasure.erase import Erased, erase
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.paid.spending import key_of, read_state
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.sync import sync
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.synthesis.llm import batch_files
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE, Round, _Buying, buy_ahead
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put
from tests.synthesis.batch_endpoint import BatchEndpoint, chat
from tests.synthesis.llm import test_batch_rounds
from tests.synthesis.llm.test_batch_rounds import ASKED, TEXT, USD, counted, looked, written

store, there = test_batch_rounds.store, test_batch_rounds.there


@contextmanager
def asking(store: LocalStore, there: BatchEndpoint) -> Iterator[None]:
    """A run of the step whose first request is on its way, and is answered at the end of the block."""
    asked, answered = threading.Event(), threading.Event()

    def late(body: dict) -> str:
        asked.set()
        answered.wait()
        return written(body)

    there.answer = late
    run = threading.Thread(target=go, args=(store, write_needs), kwargs=ASKED)
    run.start()
    try:
        assert asked.wait(60)
        yield
    finally:
        answered.set()
        run.join()


def before_it_is_written_down(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """What happens after the look whether anybody asks, and before the batch is there to be seen."""
    note, todo = _Buying._note, [happens]

    def noted(buying: _Buying, batch: object) -> None:
        while todo:
            todo.pop()()
        note(buying, batch)

    monkeypatch.setattr(_Buying, "_note", noted)


def test_no_batch_is_begun_while_a_run_of_the_step_asks(store, there):
    with asking(store, there), pytest.raises(TransientError, match="a run of write_needs is asking now.* try again"):
        looked(store)
    assert not there.batches and not list(store.keys("batches"))
    assert looked(store) == Round() and len(there.alone) == 5
    assert counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD)}


def test_a_run_that_did_not_see_a_batch_is_seen_before_that_is_begun(store, there, monkeypatch):
    with ExitStack() as running:
        before_it_is_written_down(monkeypatch, lambda: running.enter_context(asking(store, there)))
        with pytest.raises(TransientError, match="a run of write_needs is asking now"):
            looked(store)
        assert not list(store.keys("batches"))
    assert looked(store) == Round() and len(there.alone) == 5 and not there.batches
    assert counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD)}


def test_what_a_run_has_bought_while_a_batch_was_prepared_is_not_asked_once_more(store, there, monkeypatch):
    before_it_is_written_down(monkeypatch, lambda: go(store, write_needs, **ASKED))
    with pytest.raises(TransientError, match="or was until a moment ago"):
        looked(store)
    assert not there.batches and not list(store.keys("batches")) and len(there.alone) == 5
    assert looked(store) == Round() and counted(store) == {"requests": 5, "usd": pytest.approx(5 * USD)}


def test_without_a_batch_api_nothing_is_counted_and_the_step_asks_at_once(store, there, endpoint, monkeypatch):
    other = endpoint((200, chat(written({}))))
    monkeypatch.setenv("OPENAI_BASE_URL", other.url)
    settings.cache_clear()
    with pytest.raises(InputError, match=r"127\.0\.0\.1:\d+ has no batch API .*: ask at once"):
        looked(store)
    assert not other.seen and not list(store.keys("batches")) and not read_state(store, key_of("llm"))["days"]
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 5 and len(other.seen) == 5
    assert looked(store) == Round(), "where nothing is left to buy, nobody needs one"


@pytest.mark.parametrize("known", ["batch-0", ""])
def test_a_batch_is_looked_for_where_it_was_begun(store, there, monkeypatch, known):
    looked(store)
    there.end()
    (key,) = store.keys("batches")
    store.replace(key, noted := json.dumps(json.loads(store.read(key) or b"") | {"id": known}).encode())
    before = counted(store)
    with BatchEndpoint(written) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        settings.cache_clear()
        here, elsewhere = (urlsplit(each.url).netloc for each in (there, other))
        told = f"{key} was begun at {here}, and OPENAI_BASE_URL is of {elsewhere}: set it as it was"
        with pytest.raises(InputError, match=told):
            looked(store)
        assert store.read(key) == noted and counted(store) == before and not other.batches
    monkeypatch.setenv("OPENAI_BASE_URL", there.url)
    settings.cache_clear()
    assert looked(store).answered == 5 and set(there.billed.values()) == {1}


def test_a_batch_that_was_never_begun_is_forgotten_where_there_is_no_batch_api(store, there, endpoint, monkeypatch):
    looked(store)
    (key,) = store.keys("batches")
    store.replace(key, json.dumps(json.loads(store.read(key) or b"") | {"id": "", "host": ""}).encode())
    other = endpoint((200, chat(written({}))))
    monkeypatch.setenv("OPENAI_BASE_URL", other.url)
    settings.cache_clear()
    with pytest.raises(InputError, match="has no batch API"):
        looked(store)
    assert not list(store.keys("batches")) and counted(store) == {"requests": 0, "usd": 0}
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 5


def test_a_file_that_the_endpoint_refuses_does_not_stand_in_the_steps_way(store, there):
    there.full = True
    with pytest.raises(InputError, match=r"refuses POST /files: 400: no room for files"):
        looked(store)
    assert not list(store.keys("batches")) and counted(store) == {"requests": 0, "usd": 0}
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 5


def test_a_step_does_not_buy_what_is_on_its_way(store, there):
    looked(store)
    with pytest.raises(InputError, match=r"is on its way in a batch: wait .*batches/[0-9a-f]{64}\.json"):
        go(store, write_needs, **ASKED)
    assert not there.alone
    there.end()
    looked(store)
    assert go(store, write_needs, **ASKED).counters["rows_out"] == 5 and set(there.billed.values()) == {1}


def test_nothing_is_begun_by_prompts_that_were_edited_meanwhile(store, there, monkeypatch, tmp_path):
    edited = tmp_path / "domain"
    shutil.copytree(domain_folder(), edited)
    monkeypatch.setenv("FOUNDRY_DOMAIN", f"{edited}/")
    settings.cache_clear()
    job = plan(store, write_needs, ASKED)
    assert buy_ahead(store, job).open == 5
    there.end()
    intents = edited / "intents.toml"
    before = intents.read_text("utf-8")
    intents.write_text(before.replace('definition = "', 'definition = "Perhaps: '), "utf-8")
    with pytest.raises(InputError, match="write_needs: .*_sha256 changed while it ran"):
        buy_ahead(store, job)
    assert len(there.batches) == 1 and len(list(store.keys("responses"))) == 5, "what was bought is kept"
    intents.write_text(before, "utf-8")
    assert buy_ahead(store, job) == Round()


def test_what_is_erased_is_not_brought_back_by_a_batch(store, there, monkeypatch):
    secret = "The witness lives in the red house behind the mill and waters her tomatoes at seven each evening."
    each = [{"passage_id": name, "doc_id": name * 8, "text": text} for name, text in (("ab", secret), ("cd", TEXT))]
    put(store, PASSAGES, [row | {"split": "train"} for row in each])

    def take_down() -> Erased:
        return erase(store, ["ab" * 8], {schema.name: schema for schema in datasets.ALL})

    def refused() -> None:
        with pytest.raises(TransientError, match="write_needs, by batches runs; erase again"):
            take_down()

    before_it_is_written_down(monkeypatch, refused)
    looked(store)
    (key,) = store.keys("batches")
    with pytest.raises(TransientError, match=f"would bring back what goes: {key}.*foundry batch STEP"):
        take_down()
    there.end()
    assert looked(store).answered == 2
    done = take_down()
    assert done.findings.clean and (done.rows["passages"], done.answers) == (1, 1)
    assert looked(store) == Round() and len(list(store.keys("responses"))) == 1


def test_a_copy_of_the_store_knows_what_is_on_its_way(store, there):
    looked(store)
    copy = LocalStore(store.root.parent / "copy")
    assert not sync(store, copy).problems and counted(copy) == counted(store)
    with pytest.raises(InputError, match="is on its way in a batch"):
        go(copy, write_needs, **ASKED)
    there.end()
    assert [looked(each).answered for each in (copy, store)] == [5, 5] and counted(copy) == counted(store)
    assert go(copy, write_needs, **ASKED).counters["rows_out"] == 5
    assert not there.alone and set(there.billed.values()) == {1}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_copy_settles_what_the_source_has_taken_in(store, there, elsewhere):
    looked(store)
    copy = LocalStore(store.root.parent / "copy")
    sync(store, copy)
    there.end()
    looked(store)
    sync(store, copy)
    (key,) = copy.keys("batches")
    assert counted(copy)["usd"] > counted(store)["usd"]
    sync(copy, again := LocalStore(store.root.parent / "again"))
    assert not list(again.keys("batches")), "its answers are there"
    if elsewhere:
        noted = json.dumps(json.loads(copy.read(key) or b"") | {"host": "gone.example"})
        copy.replace(key, noted.encode())
    assert looked(copy) == Round() and not list(copy.keys("batches"))
    assert counted(copy) == {"requests": 5, "usd": pytest.approx(5 * USD * SHARE)}
    assert read_state(copy, key_of("llm"))["days"] == read_state(store, key_of("llm"))["days"]
    assert erase(copy, {"d"}, {schema.name: schema for schema in datasets.ALL}).answers == 5
    assert not there.alone and set(there.billed.values()) == {1}


def test_a_copy_takes_in_what_the_source_had_no_answer_to(store, there):
    looked(store)
    copy = LocalStore(store.root.parent / "copy")
    sync(store, copy)
    there.end(failing=lambda body: "server_error" if "3 volunteers" in json.dumps(body) else "")
    assert looked(store).failed == 1
    sync(store, copy)
    assert looked(copy) == Round(answered=4, failed=1, usd=pytest.approx(4 * USD * SHARE), open=1)
    there.end()
    assert [looked(each).answered for each in (store, copy)] == [1, 1]
    assert go(copy, write_needs, **ASKED).counters["rows_out"] == 5 and not there.alone


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
    with pytest.raises(
        InputError, match=r"batch-0 cannot be had: .* another key's project \(404\); .* delete batches/"
    ):
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


def test_what_the_endpoint_has_no_room_for_is_asked_later(store, there, monkeypatch, caplog):
    monkeypatch.setattr(batch_files, "MOST_BYTES", 1_000)
    there.room = 3
    assert looked(store) == Round(open=5)
    assert looked(store) == Round(open=3) == looked(store)
    assert "refused a batch of 1 requests: Enqueued token limit reached for m; they are asked later" in caplog.text
    assert counted(store)["requests"] == 3 and len(there.files) == 3, "of what was refused no file stays there"
    there.end()
    assert looked(store) == Round(answered=3, usd=pytest.approx(3 * USD * SHARE), open=2)
    there.end()
    assert looked(store).answered == 2 and looked(store) == Round() and set(there.billed.values()) == {1}


def test_where_there_is_no_room_for_one_batch_fewer_are_asked_at_a_time(store, there):
    there.room, asked = 2, []
    while not asked or asked[-1]:
        asked.append(looked(store).open)
        there.end()
    assert asked == [5, 2, 3, 1, 2, 0], "half as many as had no room, then up to twice as many as had"
    assert len(there.billed) == 5 and set(there.billed.values()) == {1}
