"""Tasks and queries by the one prompt: what is asked, what is kept, and that nothing is bought twice."""

from __future__ import annotations

import json

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.estimate import of_step
from pipeline_tasks.synthesis.prompting import task_prompts
from pipeline_tasks.synthesis.prompting.chat_prompts import LEAST_TOKENS, SPARE_TOKENS, tokens_of
from pipeline_tasks.synthesis.prompting.prompts import clip
from pipeline_tasks.synthesis.write_tasks_and_queries import write_tasks_and_queries
from tests.stores import go, put, rejects, rows

TEXT = "Volunteers fill sandbags at the fairground before the river rises in spring. {}"
TASK = "Given a question, find the place where help is given."
ANSWERS = {
    "good": {"task": TASK, "query": "where do volunteers fill sandbags before the river rises"},
    "copied": {"task": TASK, "query": task_prompts.EXAMPLES[0].query},
    "short": {"task": "Find it.", "query": "where do volunteers fill sandbags before the river rises"},
    "keywords": {"task": "Given keywords, find a passage about them.", "query": "sandbags fairground"},
    "aware": {"task": TASK, "query": "according to the passage, where do volunteers fill sandbags"},
    "broken": {"task": TASK},
}


@pytest.fixture
def store(tmp_path):
    store = LocalStore(tmp_path / "store")
    known = [(name, "train") for name in ANSWERS] + [("judged", "test")]
    passages = [{"passage_id": n, "doc_id": n, "text": TEXT.format(n), "split": split} for n, split in known]
    put(store, PASSAGES, passages)
    return store


@pytest.fixture(params=["chat", "completions"])
def asked(request, endpoint, monkeypatch):
    """The api, and an endpoint that answers each passage as its last word says."""

    def answer(body):
        text = body["messages"][-1]["content"] if request.param == "chat" else body["prompt"]
        name = next((name for name in ANSWERS if f"in spring. {name}" in text), "broken")
        said, usage = json.dumps(ANSWERS[name]), {"prompt_tokens": 900, "completion_tokens": 30}
        choice = (
            {"message": {"content": said}} if request.param == "chat" else {"text": said.removeprefix('{"task": "')}
        )
        return {"choices": [choice | {"finish_reason": "stop"}], "usage": usage, "created": 1}

    started = endpoint((200, answer))
    monkeypatch.setenv("OPENAI_BASE_URL", started.url)
    settings.cache_clear()
    return request.param, started


def test_a_passage_gets_a_task_and_a_query_of_its_own_or_a_reject_that_says_why(store, asked):
    api, started = asked
    counters = go(store, write_tasks_and_queries, llm="m", api=api).counters
    found = {row["passage_id"]: row for row in rows(store, "mtp/fret")}
    row = found.pop("good")
    assert (row["instruction"], row["query"]) == tuple(ANSWERS["good"].values())
    assert found.pop("keywords")["query"] == "sandbags fairground"
    assert found.keys() == ({"aware"} if api == "completions" else set()), "a small model is not told to be unaware"
    assert (row["passage_id"], row["positive_id"], row["intent"], row["origin"]) == ("good", "good", "any", "fret")
    assert row["positive"] == row["passage"] == TEXT.format("good")
    refused = {name: reject["reason"] for name, reject in rejects(store, "mtp/fret").items()}
    assert refused.pop("aware", "query_context_bound") == "query_context_bound"
    assert refused == {
        "copied": "query_copied_example",
        "short": "query_task_too_short",
        "broken": "query_unparsable",
    }
    assert counters["not_sampled"] == 1 and counters["llm_requests"] == len(ANSWERS) + (api == "chat")
    sent = [str(one["body"].get("messages") or one["body"]["prompt"]) for one in started.seen]
    assert all(e.task in text for text in sent for e in task_prompts.EXAMPLES)
    assert not any("in spring. judged" in text for text in sent)


def test_checks_lift_the_bounds_of_tasks_too(store, asked):
    go(store, write_tasks_and_queries, llm="m", api=asked[0], checks={"words": 1, "copied_run": 99})
    assert {"good", "short"} <= {row["passage_id"] for row in rows(store, "mtp/fret")}
    go(store, write_tasks_and_queries, llm="m", api=asked[0], checks={"words": 5})
    assert rejects(store, "mtp/fret")["short"]["reason"] == "query_task_too_short"


def test_checks_of_queries_refuse_no_task_that_is_fine_by_itself(store, asked):
    go(store, write_tasks_and_queries, llm="m", api=asked[0], checks={"query_chars": 40})
    assert len(TASK) > 40 and [row["passage_id"] for row in rows(store, "mtp/fret")] == ["keywords"]
    assert rejects(store, "mtp/fret")["good"]["reason"] == "query_too_long"
    go(store, write_tasks_and_queries, llm="m", api=asked[0], checks={"words": 11})
    assert rejects(store, "mtp/fret")["good"]["reason"] == "query_too_short"


def test_a_run_says_its_price_before_and_what_is_paid_is_not_paid_again(store, asked):
    api, started = asked
    values = {"llm": "m", "api": api}
    job = plan(store, write_tasks_and_queries, values)
    assert of_step(store, job).n_requests == len(ANSWERS) and not started.seen
    go(store, write_tasks_and_queries, **values)
    n_sent = len(started.seen)
    again = go(store, write_tasks_and_queries, **values, splits=("train", "dev", "test")).counters
    assert len(started.seen) - n_sent == again["llm_requests"] <= 2, "the passage of the split test alone is new"


@pytest.mark.parametrize("word", ["rises ", "\u6c34"])
def test_a_passage_is_cut_to_the_room_that_the_model_has(word):
    def asked(n_words, context_tokens):
        text = task_prompts.ask(word * n_words, key="p", chat=True, structured=True, context_tokens=context_tokens)
        return text, sum(map(tokens_of, (text.system, *text.turns, text.text))) + text.max_tokens

    whole, taken = asked(2_000, 8_192)
    assert whole.passage == clip(word * 2_000, 2_000)
    least = taken - tokens_of(whole.passage) + LEAST_TOKENS + SPARE_TOKENS
    cut, taken = asked(2_000, least)
    assert taken <= least and 0 < len(cut.passage) < len(whole.passage)
    assert asked(9, least)[0].text == asked(9, 8_192)[0].text, "what fits stays as it is"
    with pytest.raises(InputError, match="tokens for a passage, and 128 are the least: take a model that reads more"):
        asked(9, least - 100)


def test_the_prompts_of_a_domain_have_no_part_in_what_it_is():
    identity = write_tasks_and_queries.parse({"api": "chat"}).identity()
    assert identity["prompt_sha256"] == task_prompts.sha256() and "prompts_sha256" not in identity
    assert "traits_sha256" not in identity
