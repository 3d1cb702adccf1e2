import json
import logging
import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.paid.endpoint import FREE, Endpoint, NoAnswer, Price, Terms, Unanswered
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.synthesis.llm.api import answer_of
from pipeline_tasks.synthesis.llm.client import LLMClient, Request

KEY = "sk-secret-0123456789"
PAID = Price(prompt=1.0, completion=2.0)


def answer(text="a levee", **more):
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "1", "object": "text_completion", "model": "m-1", "created": 1700000000}
    return (200, body | {"choices": [choice], "usage": usage} | more)


def chat_answer(text):
    message = {"role": "assistant", "content": text}
    return answer(choices=[{"index": 0, "message": message, "finish_reason": "stop"}])


def failure(status, message="no", code=None):
    return (status, {"error": {"message": message, "code": code, "type": "x", "param": None}})


def client(url, responses, *, price=PAID, api="completions", key=KEY, model="m", **terms):
    asked = Terms(**({"timeout_s": 20.0, "attempts": 2} | terms))
    return LLMClient(Endpoint(url, key, model, terms=asked, price=price), model, api, responses)


def stored(tmp_path):
    return sorted(p for p in (tmp_path / "store").rglob("*.json"))


def test_an_answer_is_bought_once_and_stored_whole(endpoint, responses, tmp_path):
    there = endpoint(answer())
    first = client(there.url, responses).complete("What?", max_tokens=8, stop=("\n",), seed=3)
    again = client(there.url, responses).complete("What?", max_tokens=8, stop=("\n",), seed=3)
    assert (first.text, first.prompt_tokens, first.completion_tokens) == ("a levee", 100, 10)
    assert first.cost_usd == pytest.approx(120e-6)
    assert (first.cached, again.cached, len(there.seen)) == (False, True, 1)
    assert again.cost_usd == first.cost_usd and again.text == first.text
    (path,) = stored(tmp_path)
    assert path.stem == first.response_id and path.parent.name == first.response_id[:2]
    record = json.loads(path.read_bytes())
    assert record["request"] == {
        "model": "m", "prompt": "What?", "max_tokens": 8, "temperature": 0.0, "stop": ["\n"], "seed": 3,
    }  # fmt: skip
    assert record["response"]["model"] == "m-1" and record["response"]["created"] == 1700000000


def test_the_endpoint_and_the_key_do_not_name_the_answer(endpoint, responses):
    one, other = endpoint(answer()), endpoint(answer("unused"))
    client(one.url, responses).complete("What?", max_tokens=8)
    moved = client(other.url, responses, key="another", price=FREE).complete("What?", max_tokens=8)
    assert moved.cached and other.seen == []


def test_what_decides_the_answer_names_it(endpoint, responses):
    there = endpoint(answer())
    asked = client(there.url, responses)
    ids = {
        asked.ask(r).response_id
        for r in (Request("a", 8), Request("b", 8), Request("a", 9), Request("a", 8, 0.5), Request("a", 8, seed=1))
    }
    assert len(ids) == 5


def test_chat_sends_the_prompt_as_one_user_message(endpoint, responses):
    there = endpoint(chat_answer("Hello"))
    assert client(there.url, responses, api="chat").complete("Hi", max_tokens=8).text == "Hello"
    assert there.seen[0]["path"] == "/v1/chat/completions"
    assert there.seen[0]["body"]["messages"] == [{"role": "user", "content": "Hi"}]


def test_a_busy_endpoint_is_asked_again(endpoint, responses):
    there = endpoint(failure(429), answer())
    assert client(there.url, responses).complete("What?", max_tokens=8).text == "a levee"
    assert len(there.seen) == 2


@pytest.mark.parametrize("broken", [failure(500), (200, b"<html>{not json"), (200, {"choices": []}), (200, {})])
def test_a_broken_endpoint_is_worth_another_try_later(endpoint, responses, broken, tmp_path):
    with pytest.raises(TransientError, match="127.0.0.1"):
        client(endpoint(broken).url, responses).complete("What?", max_tokens=8)
    assert stored(tmp_path) == []


@pytest.mark.parametrize("status", [500, 501])
def test_what_a_server_does_not_offer_is_not_asked_again(endpoint, responses, status):
    there = endpoint(failure(status, "Only no echo is supported"))
    with pytest.raises(Unanswered, match=f"{status}: Only no echo is supported"):
        client(there.url, responses).complete("What?", max_tokens=8)
    assert len(there.seen) == 1


def test_log_probabilities_are_stored_and_name_the_request(endpoint, responses):
    told = {"tokens": ["What", "?", " a"], "token_logprobs": [None, -2.0, -1.0], "text_offset": [0, 4, 5]}
    there = endpoint(answer(choices=[{"text": "What? a", "logprobs": told}]), answer())
    asked = client(there.url, responses)
    found = [asked.ask(Request("What?", 1, echo=True, logprobs=1)) for _ in range(2)]
    assert [one.cached for one in found] == [False, True]
    for one in found:
        np.testing.assert_array_equal(one.log_probs.log_probs, [np.nan, -2.0, -1.0])
    assert (there.seen[0]["body"]["echo"], there.seen[0]["body"]["logprobs"]) == (True, 1)
    plain = asked.ask(Request("What?", 1))
    assert plain.response_id != found[0].response_id and plain.log_probs is None


def test_a_failed_request_can_be_made_again(endpoint, responses):
    there = endpoint(failure(500), answer())
    asked = client(there.url, responses, attempts=1)
    with pytest.raises(NoAnswer, match="answered 500: no in 1 attempts"):
        asked.complete("What?", max_tokens=8)
    assert asked.complete("What?", max_tokens=8).text == "a levee"


def test_a_silent_endpoint_times_out(endpoint, responses):
    there = endpoint(answer())
    there.hold.clear()
    with pytest.raises(TransientError, match="did not answer .ReadTimeout"):
        client(there.url, responses, timeout_s=0.2, attempts=1).complete("What?", max_tokens=8)


def test_nobody_listening_is_transient(responses):
    with pytest.raises(TransientError, match="cannot be reached"):
        client("http://127.0.0.1:9/v1", responses, attempts=1).complete("What?", max_tokens=8)


@pytest.mark.parametrize(("status", "remedy"), [(401, "OPENAI_API_KEY"), (403, "another key"), (404, "model's name")])
def test_what_the_caller_must_mend_is_not_retried(endpoint, responses, status, remedy):
    there = endpoint(failure(status))
    with pytest.raises(InputError, match=remedy):
        client(there.url, responses, attempts=5).complete("What?", max_tokens=8)
    assert len(there.seen) == 1


def test_a_refused_prompt_is_an_empty_answer(endpoint, responses):
    there = endpoint(failure(400, code="content_filter"))
    refused = client(there.url, responses).complete("What?", max_tokens=8)
    assert (refused.text, refused.finish_reason, refused.cost_usd) == ("", "content_filter", 0.0)
    assert client(there.url, responses).complete("What?", max_tokens=8).cached


@pytest.mark.parametrize("status", [401, 403, 404, 400, 429, 500])
def test_the_key_is_nowhere_to_be_read(endpoint, responses, tmp_path, caplog, status):
    caplog.set_level(logging.DEBUG)
    there = endpoint(failure(status, f"bad key {KEY}\x1b[31m"), answer())
    with pytest.raises((InputError, TransientError, Unanswered)) as caught:
        client(there.url, responses, attempts=1, patience_s=0.1).complete("What?", max_tokens=8)
    client(there.url, responses).complete("What else?", max_tokens=8)
    assert there.seen[0]["headers"]["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(caught.value) and "\x1b" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert KEY not in caplog.text
    assert all(KEY.encode() not in p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file())


@pytest.mark.parametrize("url", ["https://user:pass@host/v1", "https://host/v1?key=pass", "file:///pass", "pass"])
def test_an_endpoint_that_carries_a_secret_is_refused_without_showing_it(responses, url):
    with pytest.raises(InputError) as caught:
        client(url, responses)
    assert "pass@" not in str(caught.value) and "key=pass" not in str(caught.value)


def test_many_answers_keep_their_order_and_share_equal_requests(endpoint, responses):
    there = endpoint(answer())
    requests = [Request(f"prompt {i % 7}", 8) for i in range(40)]
    got = list(client(there.url, responses, concurrency=4).ask_many(iter(requests)))
    one_by_one = [client(there.url, responses).ask(r).response_id for r in requests]
    assert [r.response_id for r in got] == one_by_one
    assert len(there.seen) == 7


def test_one_that_takes_long_holds_up_no_other_not_even_what_is_asked_again(endpoint, responses):
    requests = [Request(f"prompt {i}", 8) for i in range(200)]
    others, patience = [], time.monotonic() + 60

    def slow(_):
        while len(there.seen) <= len(requests) and time.monotonic() < patience:
            time.sleep(0.005)
        others.append(len(there.seen) - 1)
        return answer("late")[1]

    there = endpoint((200, slow), answer("soon"))
    asked = client(there.url, responses, concurrency=2).ask_many(
        requests, lambda place, _: Request("other words", 8) if place == 7 else None
    )
    got = [r.text for r in asked]
    assert others == [len(requests)] and sorted(got) == ["late", *["soon"] * 199]
    assert sum("other words" in str(one["body"]) for one in there.seen) == 1


class Slow(LocalStore):
    """A store that takes no answer until it is let."""

    def __init__(self, root):
        super().__init__(root)
        self.let, self.offered = threading.Event(), 0

    def create(self, key, data):
        if key.startswith("responses/"):
            self.offered += 1
            self.let.wait(60)
        return super().create(key, data)


def test_no_more_answers_than_may_be_open_are_paid_for_and_not_stored(endpoint, tmp_path):
    there, store = endpoint(answer()), Slow(tmp_path)
    asked = client(there.url, ResponseStore(store), concurrency=2)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(lambda: list(asked.ask_many([Request(f"prompt {i}", 8) for i in range(9)])))
        patience = time.monotonic() + 60
        while store.offered < 2 and time.monotonic() < patience:
            time.sleep(0.005)
        with pytest.raises(TimeoutError):
            got.result(0.5)
        paid = store.offered, len(there.seen)
        store.let.set()
        assert (len(got.result(60)), len(there.seen)) == (9, 9)
    assert paid == (2, 2)


def _ask_in_another_process(url, folder, barrier):
    barrier.wait()
    for i in range(6):
        client(url, ResponseStore(LocalStore(folder))).complete(f"prompt {i}", max_tokens=8)


def test_two_processes_pay_once(endpoint, tmp_path):
    there = endpoint(answer())
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    both = [
        spawn.Process(target=_ask_in_another_process, args=(there.url, tmp_path / "store", barrier)) for _ in range(2)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [p.exitcode for p in both] == [0, 0]
    assert len(there.seen) == 6


def test_the_loser_of_a_race_uses_what_is_stored(endpoint, tmp_path):
    there = endpoint(answer("first"), answer("second"))
    there.hold.clear()
    got = []
    stores = [ResponseStore(LocalStore(tmp_path)) for _ in range(2)]
    free = [client(there.url, responses, price=FREE) for responses in stores]
    threads = [threading.Thread(target=lambda c=c: got.append(c.complete("What?", max_tokens=8).text)) for c in free]
    for thread in threads:
        thread.start()
    while len(there.seen) < 2:
        threading.Event().wait(0.01)
    there.hold.set()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 1


def test_the_real_small_model_answers_and_is_remembered(small_llm, responses):
    asked = client(small_llm, responses, price=FREE, key="", model="smollm2-135m-instruct", timeout_s=120.0)
    first = asked.complete("One, two, three,", max_tokens=4)
    again = asked.complete("One, two, three,", max_tokens=4)
    assert "four" in first.text and first.cost_usd == 0.0
    assert (first.completion_tokens, first.finish_reason) == (4, "length")
    assert again.cached and again.text == first.text


def test_an_answer_that_was_cut_inside_a_character_can_be_stored():
    choice = {"message": {"content": "high water \ud83d", "reasoning_content": "\udc00"}, "finish_reason": "length"}
    answer, tokens = answer_of({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, "chat", {})
    assert (answer["text"], answer["reasoning"], tokens) == ("high water ?", "?", (3, 4))
    assert json.loads(canonical_json(answer)) == answer
