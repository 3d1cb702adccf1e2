"""What comes from endpoints that say odd things, and keys that are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import Refused, pace
from pipeline_tasks.core.paid.response_store import answer_key
from pipeline_tasks.synthesis.llm.api import Request, at_most, body_of, sent
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.synthesis.llm.test_client import answer, client


def test_a_model_that_thinks_is_sent_its_limit_and_no_temperature():
    plain = Request("p", 100, 0.5, seed=7)
    thinking = replace(plain, reasoning_tokens=4096)
    assert body_of(plain, "m", "chat").keys() >= {"max_tokens", "temperature", "seed"}
    body = sent(body_of(thinking, "m", "chat"))
    assert body.keys() == {"model", "messages", "max_completion_tokens", "seed"}
    assert body["max_completion_tokens"] == at_most(thinking).completion == 4196
    with pytest.raises(InputError, match="set api=chat"):
        write_needs.parse({"reasoning_tokens": 4096})


@pytest.mark.parametrize("key", ["sk-\u201cquoted\u201d", "sk-a\nb", "sk a"])
def test_a_key_that_no_header_can_hold_is_named_by_its_variable_alone(responses, key):
    with pytest.raises(InputError, match="OPENAI_API_KEY holds what no key does") as told:
        client("http://127.0.0.1:9/v1", responses, key=key)
    assert key not in str(told.value) and told.value.__cause__ is None


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens": -9_000_000},
        {"prompt_tokens": 10**25},
        {"prompt_tokens": float("inf")},
        {"prompt_tokens": None},
        {"prompt_tokens": "10 tokens"},
        "none",
    ],
)
def test_what_cannot_have_been_taken_is_counted_at_the_most(endpoint, responses, told):
    there = endpoint(answer(usage=told, created=10**25), answer(usage={}, created="2026-11-01T12:00:00Z"))
    asked = client(there.url, responses)
    found, untold = (asked.complete(prompt, max_tokens=8) for prompt in ("What?", "Why??"))
    assert found.text == "a levee" and found.cost_usd == untold.cost_usd > 0
    assert (found.prompt_tokens, found.created) == (0, 0)


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ([{"error": {"code": 400, "message": "API key not valid."}}], "refused_request.*400: API key not valid"),
        ([{"message": "no model"}, {"message": "more"}], "400: no model"),
        ([{"error": {"code": "insufficient_quota", "message": "pay"}}], "is used up .400.: pay"),
        ([], "'400'"),
        ([None], "'400'"),
    ],
)
def test_an_error_that_comes_in_a_list_keeps_its_cause(endpoint, responses, told, meant):
    with pytest.raises((Refused, InputError), match=meant):
        client(endpoint((400, told)).url, responses).complete("What?", max_tokens=8)


def ended(reason, text="a levee"):
    return answer(choices=[{"index": 0, "text": text, "finish_reason": reason}])


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "error", "abort", "network_error"])
def test_an_answer_that_the_endpoint_broke_off_is_asked_for_again(endpoint, responses, monkeypatch, reason):
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 0.01)
    there = endpoint(ended(reason, "a le"), answer())
    asked = client(there.url, responses)
    assert asked.complete("What?", max_tokens=8).text == "a levee"
    assert (len(there.seen), asked.counts["retries_bad_answer"]) == (2, 1)


def test_an_answer_that_was_stored_though_it_was_broken_off_is_asked_for_again(endpoint, responses):
    """As releases before did."""
    there = endpoint(answer(), answer())
    asked = client(there.url, responses)
    name = asked.complete("What?", max_tokens=8).response_id
    record = responses.read(name)
    responses._store.delete(answer_key(name))
    broken = record | {"response": record["response"] | {"text": "a le", "finish_reason": "error"}, "cost_usd": 0.25}
    responses.write(name, broken)
    assert (responses.read(name), responses.has_any([name]), responses.lying(name)) == (None, False, broken), (
        "who looks"
    )
    assert asked.complete("What?", max_tokens=8).text == "a levee"
    assert (len(there.seen), responses.read(name)) == (2, record | {"cost_usd": record["cost_usd"] + 0.25})


@pytest.mark.parametrize("reason", ["stop", "eos", "stop_sequence", "end_turn", "tool_calls", "length", "", None])
def test_an_answer_that_ended_in_another_way_is_kept(endpoint, responses, reason):
    there = endpoint(ended(reason))
    assert client(there.url, responses).complete("What?", max_tokens=8).text == "a levee" and len(there.seen) == 1


def test_a_filtered_answer_without_a_text_is_an_answer(endpoint, responses):
    filtered = {"index": 0, "message": {"role": "assistant"}, "finish_reason": "content_filter"}
    pieces = [{"type": "text", "text": "a "}, {"type": "refusal", "refusal": "no"}, {"type": "text", "text": "levee"}]
    whole = {"index": 0, "message": {"role": "assistant", "content": pieces}, "finish_reason": "stop"}
    there = endpoint(answer(choices=[filtered]), answer(choices=[whole]))
    asked = client(there.url, responses, api="chat")
    found = asked.complete("What?", max_tokens=8)
    assert (found.text, found.finish_reason, len(there.seen)) == ("", "content_filter", 1)
    assert asked.complete("Why?", max_tokens=8).text == "a levee"
