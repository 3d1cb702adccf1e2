"""An endpoint that tells log-probabilities orders passages as the same model does here, which the stand-in runs."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.paid.spending import LimitReached
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.relabel import relabel
from pipeline_tasks.curation.score_passages import score_passages
from pipeline_tasks.synthesis.estimate import of_step
from tests.curation.compared import filled
from tests.curation.echo_endpoint import EchoEndpoint
from tests.curation.small_scorer import make
from tests.stores import go, rejects, rows
from tests.synthesis.conftest import StandInEndpoint

SCORES = ("likelihoods", "relevances")


@pytest.fixture(scope="module")
def scorer(tmp_path_factory) -> str:
    return str(make(tmp_path_factory.mktemp("scorer")))


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return filled(tmp_path / "store")


@pytest.fixture
def at(monkeypatch):
    """Starts a stand-in and points the settings at it."""
    started = []

    def start(there: StandInEndpoint) -> StandInEndpoint:
        started.append(there.__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", there.url)
        settings.cache_clear()
        return there

    yield start
    for one in started:
        one.__exit__()


@pytest.mark.parametrize(("top_logprobs", "special"), [(999, ""), (5, "<s>")])
def test_scores_and_order_are_those_of_the_same_model_here(store, scorer, at, top_logprobs, special):
    there = at(EchoEndpoint(scorer, special))
    counters = go(store, score_passages, llm="m", top_logprobs=top_logprobs, concurrency=2).counters
    here = go(store, relabel, scorer=scorer).counters
    found, wanted = (
        {row["query_id"]: row for row in rows(store, name)} for name in ("relabelled/scored", "relabelled")
    )
    assert set(found) == {"q0", "q1", "q3"}
    for name, row in found.items():
        for column in SCORES:
            np.testing.assert_allclose(row.pop(column), wanted[name].pop(column), atol=1e-4)
        assert row == wanted[name]
    assert rejects(store, "relabelled/scored")["q2"]["reason"] == "nothing_to_compare"
    assert {n: counters[n] for n in ("positives_changed", "passages_compared")} == {
        n: here[n] for n in ("positives_changed", "passages_compared")
    }
    echoes = sum("echo" in one["body"] for one in there.seen)
    assert echoes == 10 + counters["grades_asked_apart"]
    assert counters["grades_asked_apart"] in {999: [0], 5: range(20, 41)}[top_logprobs]


def test_a_run_that_ended_early_pays_for_the_rest_alone(store, scorer, at):
    there = at(EchoEndpoint(scorer))
    with pytest.raises(LimitReached, match="max_run_tokens"):
        go(store, score_passages, llm="m", top_logprobs=999, max_run_tokens=4_000)
    begun = len(there.seen)
    assert 0 < begun < 20
    go(store, score_passages, llm="m", top_logprobs=999)
    asked = Counter(json.dumps(one["body"], sort_keys=True) for one in there.seen)
    assert set(asked.values()) == {1} and len(asked) == 20
    told = query(store, "SELECT model, count(*) AS n FROM llm_calls GROUP BY ALL").to_pylist()
    assert told == [{"model": "m", "n": 20}]
    bought = query(store, "SELECT count(DISTINCT response_id) AS n FROM part_responses").to_pylist()
    assert bought == [{"n": 20}]


def test_the_bill_is_known_before(store, at):
    there = at(StandInEndpoint((500, {})))
    assert of_step(store, plan(store, score_passages, {"llm": "m", "top_logprobs": 0})).n_requests == 10 * 5
    bill = of_step(store, plan(store, score_passages, {"llm": "m"}))
    assert (bill.rows, bill.n_requests) == (4, 10 * 2)
    assert there.seen == []


LLAMA_CPP = {"content": [{"id": 536, "token": " do", "bytes": [32, 100, 111], "logprob": -2.0755, "top_logprobs": []}]}
"""What its server made of an echo on 2026-11-23, a 200."""
GENERATED = {"tokens": [" a"], "token_logprobs": [-1.0], "text_offset": [0], "top_logprobs": [{" a": -1.0}]}


@pytest.mark.parametrize(
    ("status", "told", "what"),
    [
        (200, None, r"leaves out log-probabilities of a prompt \(echo\)"),
        (200, LLAMA_CPP, r"leaves out log-probabilities of a prompt \(echo\)"),
        (200, GENERATED, r"leaves out log-probabilities of a prompt \(echo\)"),
        (400, "logprobs is not allowed", "refuses even a short prompt for 'm'.*logprobs is not allowed"),
        (500, "Only no echo is supported", "refuses even a short prompt for 'm'.*no echo"),
    ],
)
def test_an_endpoint_without_log_probabilities_is_told_apart_at_once(store, at, status, told, what):
    answer = {"choices": [{"text": " a", "logprobs": told}]} if status == 200 else {"error": {"message": told}}
    there = at(StandInEndpoint((status, answer)))
    with pytest.raises(InputError, match=f"{what}.*grade_passages"):
        go(store, score_passages, llm="m")
    assert len(there.seen) <= 12
    assert not list(store.keys("versions/relabelled")) and not list(store.keys("responses"))


def test_a_passage_without_a_score_takes_its_query_with_it(store, scorer, at):
    there = at(EchoEndpoint(scorer))
    answered = there.script[0][1]

    def cut(body: dict) -> dict:
        """The last two words of a prompt about ``ta`` are one token."""
        said = answered(body)
        if body.get("echo") and body["prompt"].endswith(" ta"):
            told = said["choices"][0]["logprobs"]
            for name in ("text_offset", "token_logprobs"):
                told[name].pop(-2)
            told["tokens"][-3:-1] = ["".join(told["tokens"][-3:-1])]
        return said

    there.script[:] = [(200, cut)]
    go(store, score_passages, llm="m", top_logprobs=999)
    refused = rejects(store, "relabelled/scored")
    assert refused["q0"]["reason"] == "score_not_apart" and refused["q0"]["detail"].startswith("p0: ")
    assert {row["query_id"] for row in rows(store, "relabelled/scored")} == {"q1", "q3"}
    graded = [one["body"]["prompt"] for one in there.seen if not one["body"].get("echo")]
    assert graded and not any(" ta\n" in prompt or prompt.endswith(" ta") for prompt in graded), (
        "a lost query costs no more"
    )


def test_grades_that_begin_alike_are_the_models_fault(store, scorer, at):
    there = at(EchoEndpoint(scorer))
    answered = there.script[0][1]

    def apart(body: dict) -> dict:
        """Spaces are tokens of their own."""
        said = answered(body)
        told = said["choices"][0]["logprobs"]
        if body.get("echo"):
            at = told["text_offset"][-2]
            told["tokens"][-2:-1] = [" ", told["tokens"][-2].strip()]
            told["text_offset"][-2:-1] = [at, at + 1]
            told["token_logprobs"][-2:-1] = [-1.0, -1.0]
        return said

    there.script[:] = [(200, apart)]
    with pytest.raises(InputError, match="do not differ in their first token"):
        go(store, score_passages, llm="m", top_logprobs=0)


@pytest.mark.parametrize(("name", "value"), [("api", "chat"), ("temperature", 0.5), ("json_schema", False)])
def test_what_is_about_writing_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name}={value!r}.*nothing is written"):
        score_passages.parse({"llm": "m", name: value})


def test_a_version_is_known_by_the_model_and_by_what_it_is_shown():
    first = score_passages.parse({"llm": "m"}).identity()
    assert first == score_passages.parse({"llm": "m", "concurrency": 9, "max_run_usd": 1}).identity()
    for name, value in {"llm": "n", "passage_chars": 200, "k": 9, "top_logprobs": 5, "again": "now"}.items():
        assert score_passages.parse({"llm": "m", name: value}).identity() != first
