"""Which passages an LLM is asked about."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.demo.recorded_llm import Recording, Written, serve_recorded
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put, reasons, rows

TEXT = "Volunteers fill sandbags at the fairground before the river rises in spring."


@pytest.fixture
def recorded(monkeypatch):
    """The name of a recording that the settings point at."""
    need = "where volunteers fill sandbags"
    written = Written(intent="qa", evidence=TEXT, need=need, query="Where are sandbags filled?", positive=TEXT)
    with serve_recorded(recording := Recording([written], domain_folder())) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        settings.cache_clear()
        yield recording.name


@pytest.mark.parametrize("splits", [("train",), ("train", "dev"), ("train", "dev", "test")])
def test_no_answer_is_bought_for_a_split_that_is_not_wanted(tmp_path, recorded, splits):
    store = LocalStore(tmp_path / "store")
    there = ("train", "dev", "test")
    put(store, PASSAGES, [{"passage_id": f"in {s}", "doc_id": s, "text": TEXT, "split": s} for s in there])
    counters = go(store, write_needs, llm=recorded, intents=["qa"], splits=splits).counters
    assert {row["split"] for row in rows(store, "needs")} == set(splits)
    assert (counters["llm_requests"], counters["not_sampled"]) == (len(splits), 3 - len(splits))


def test_an_intent_that_is_named_twice_is_refused():
    with pytest.raises(InputError, match=r"intents=\['qa', 'qa'\]: name each intent once"):
        write_needs.parse({"intents": ["qa", "qa"]})


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"qa": 5}, r"rates.qa.*less than or equal to 1"),
        ({"qa": 0}, r"rates.qa.*greater than 0"),
        ({"qa": -1}, r"rates.qa.*greater than 0"),
        ({"nli": 0.5}, r"rates has 'nli', which is not in intents=\['qa'\]: leave it out"),
        ({"qaa": 0.5}, "no intent is called 'qaa'"),
    ],
)
def test_a_rate_is_a_share_of_the_passages_of_an_intent_that_is_asked_about(rates, said):
    with pytest.raises(InputError, match=said):
        write_needs.parse({"intents": ["qa"], "rates": rates})
    assert write_needs.parse({"rates": {"qa": 1, "nli": 0.01}}).rates == {"qa": 1, "nli": 0.01}


def test_a_version_costs_its_answers_that_were_filtered_too(tmp_path, endpoint, monkeypatch):
    def answer(body):
        filtered = "filtered" in body["prompt"]
        choice = {"text": "where volunteers fill sandbags", "finish_reason": "content_filter" if filtered else "stop"}
        return {"choices": [choice], "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}

    priced = {"OPENAI_BASE_URL": endpoint((200, answer)).url, "FOUNDRY_LLM_PRICE_IN": "1", "FOUNDRY_LLM_PRICE_OUT": "1"}
    for name, value in priced.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    store = LocalStore(tmp_path / "store")
    there = [{"passage_id": n, "text": f"{n}: {TEXT}", "split": "train"} for n in ("filtered", "kept")]
    put(store, PASSAGES, there)
    made = go(store, write_needs, llm="m", intents=["qa"])
    settings.cache_clear()
    assert (reasons(store, "needs"), made.counters["cost_usd"]) == ({"llm_refused_request": 1}, 2)
    (cost,) = query(store, f"FROM cost_of('needs@{made.ref.version}')").to_pylist()
    assert cost["cost_usd"] == 2, cost
