"""Both steps with a model that follows instructions: asked in messages, corrected once, bought once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline_tasks import domains
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.synthesis.write_needs import write_needs
from pipeline_tasks.synthesis.write_pairs import write_pairs
from tests.stores import go, put, reasons, rejects, rows

ASKED = {"llm": "m", "api": "chat", "concurrency": 1}
TEXT = "Volunteers fill sandbags at the fairground before the river rises in spring. The Lions Club brings soup."
WRITTEN = {
    "need": "A neighbor wants to know where helpers prepare for high water.",
    "query": "If I want to help against the flood, where do people pack sand?",
    "positive": "At the fairground, where sandbags are filled before the spring high water of the river.",
}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p", "doc_id": "d", "text": TEXT, "split": "train"}])
    return store


@pytest.fixture
def model(endpoint, monkeypatch):
    """Starts a stand-in that answers as a model would, after what it says first; the settings point at it."""

    def start(*first: str | tuple):
        there = endpoint(*((200, said(one)) if isinstance(one, str) else one for one in first), (200, well))
        monkeypatch.setenv("OPENAI_BASE_URL", there.url)
        settings.cache_clear()
        return there

    return start


def said(text: str) -> dict:
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


def well(body: dict) -> dict:
    fields = body["response_format"]["json_schema"]["schema"]["required"]
    return said(json.dumps({field: WRITTEN[field] for field in fields}))


def test_a_need_and_its_pair_are_asked_in_messages(store, model):
    there = model()
    go(store, write_needs, **ASKED, intents=["qa"])
    go(store, write_pairs, **ASKED)
    (pair,) = rows(store, "mtp/dm")
    assert (pair["query"], pair["positive"], pair["intent"]) == (WRITTEN["query"], WRITTEN["positive"], "qa")
    assert [one["path"] for one in there.seen] == ["/v1/chat/completions"] * 2
    last = json.loads(there.seen[1]["body"]["messages"][-1]["content"])
    assert (last["passage"], last["need"]) == (TEXT, WRITTEN["need"])


def test_an_answer_that_cannot_be_read_is_asked_for_once_more_and_said_so(store, model):
    there = model("I would be glad to help with that.")
    counters = go(store, write_needs, **ASKED, intents=["qa"]).counters
    assert (counters["llm_requests"], counters["repairs"], counters["rows_out"]) == (2, 1, 1)
    messages = there.seen[1]["body"]["messages"]
    assert messages[:-2] == there.seen[0]["body"]["messages"]
    assert messages[-2] == {"role": "assistant", "content": "I would be glad to help with that."}
    assert 'nothing but {"need": "..."}' in messages[-1]["content"]


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_answer_is_asked_for_once_more_without_an_empty_turn(store, model, empty):
    there = model(empty)
    counters = go(store, write_needs, **ASKED, intents=["qa"]).counters
    assert (counters["llm_requests"], counters["repairs"], counters["rows_out"]) == (2, 1, 1)
    *turns, last = there.seen[1]["body"]["messages"]
    assert turns == there.seen[0]["body"]["messages"][:-1]
    assert last["content"].endswith("\n\nAnswer with that JSON object alone.")


def test_a_second_answer_that_cannot_be_read_is_a_reject(store, model):
    there = model("What?", "Pardon?")
    go(store, write_needs, **ASKED, intents=["qa"])
    assert reasons(store, "needs") == {"need_unparsable": 1} and len(there.seen) == 2


def test_an_answer_that_can_be_read_and_is_bad_is_not_asked_for_again(store, model):
    there = model(json.dumps({"need": "I'm sorry, but I can't help with that."}))
    go(store, write_needs, **ASKED, intents=["qa"])
    (row,) = rejects(store, "needs").values()
    assert row["reason"] == "need_refusal" and row["detail"].startswith('qa: {"need"') and len(there.seen) == 1


def test_a_bound_that_a_step_is_told_changes_what_is_kept_and_nothing_that_is_bought(store, model):
    there = model()
    go(store, write_needs, **ASKED, intents=["qa"])
    go(store, write_pairs, **ASKED)
    go(store, write_pairs, **ASKED, checks={"words/qa": 50})
    assert reasons(store, "mtp/dm") == {"pair_too_short": 1} and len(there.seen) == 2
    with pytest.raises(InputError, match="checks='word' is no measure"):
        go(store, write_pairs, **ASKED, checks={"word": 50})


def test_an_endpoint_that_takes_no_schema_is_asked_without(store, model):
    there = model(json.dumps({"need": WRITTEN["need"]}))
    assert go(store, write_needs, **ASKED, intents=["qa"], json_schema=False).counters["rows_out"] == 1
    assert "response_format" not in there.seen[0]["body"]


def test_an_endpoint_that_refuses_the_schema_is_named_with_the_parameter(store, model):
    refused = (400, {"error": {"message": "response_format is not supported"}})
    model(refused, refused)
    with pytest.raises(InputError, match="response_format is not supported; .*--set json_schema=false"):
        go(store, write_needs, **ASKED, intents=["qa"])


def test_what_a_model_thinks_aloud_is_no_part_of_its_answer_however_long_it_is(store, model):
    thought = 'Perhaps {"need": "this"} would do. ' * 1_000 + "</think>\n"
    there = model(f"<think>{thought}What?", thought + json.dumps({"need": WRITTEN["need"]}))
    counters = go(store, write_needs, **ASKED, intents=["qa"]).counters
    assert (counters["llm_requests"], counters["repairs"], counters["rows_out"]) == (2, 1, 1)
    assert there.seen[1]["body"]["messages"][-2]["content"].strip() == "What?"
    kept = [json.loads(store.read(key))["response"]["text"] for key in store.keys("responses")]
    assert len(kept) == 2 and all(thought in text for text in kept), "what was bought is kept whole"


@pytest.mark.parametrize("changed", ["prompts/qa.toml", "traits.toml"])
def test_one_file_of_prompts_changed_is_one_intent_written_again(store, model, tmp_path, monkeypatch, changed):
    copy = tmp_path / "domains" / domain_folder().name
    shutil.copytree(domain_folder(), copy, ignore=shutil.ignore_patterns("sample", "recordings"))
    monkeypatch.setattr(domains, "_ROOT", copy.parent)
    there = model()
    asked = ASKED | {"intents": ["qa", "sts"], "intents_per_passage": 2}

    def write() -> int:
        before = len(there.seen)
        go(store, write_needs, **asked)
        go(store, write_pairs, **ASKED)
        return len(there.seen) - before

    assert (write(), write()) == (4, 0)
    file = copy / changed
    if changed == "traits.toml":
        file.write_text(file.read_text("utf-8") + '\n[qa.mood]\n"The query is impatient." = 1\n')
        assert write() == 1, "traits are of pairs"
    else:
        file.write_text(file.read_text("utf-8").replace("A resident without", "A tenant without"))
        assert write() == 2


@pytest.mark.parametrize("answers", [["I would be glad to help with that."], ["What?", "Pardon?"]])
def test_what_was_paid_for_and_is_in_no_row_is_in_the_costs_of_its_intent(store, model, monkeypatch, answers):
    there = model(*answers)
    for name in ("IN", "OUT"):
        monkeypatch.setenv(f"FOUNDRY_LLM_PRICE_{name}", "10")
    settings.cache_clear()
    spent = go(store, write_needs, **ASKED, intents=["qa"]).counters["cost_usd"]
    (told,) = query(store, "FROM cost_by_intent()").to_pylist()
    assert (told["intent"], told["n_answers"], len(there.seen)) == ("qa", 1, 2)
    assert told["cost_usd"] == pytest.approx(spent) and spent > 0
    assert query(store, "SELECT cost_usd FROM cost_of('needs')").to_pylist() == [{"cost_usd": pytest.approx(spent)}]
