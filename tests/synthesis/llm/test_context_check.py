"""An endpoint that tells of less room than a step counts on ends it at its start; one that tells nothing does not."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.llm.context_check import contexts
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go, put
from tests.synthesis.conftest import SMALL_LLM, StandInEndpoint

VLLM = {"/v1/models": {"data": [{"id": "other", "max_model_len": 512}, {"id": "m", "max_model_len": 4096}]}}
LLAMA = {"/v1/models": {"data": [{"id": "/m.gguf", "meta": {"n_ctx_train": 32768}}]}}
PROPS = {"/props": {"default_generation_settings": {"n_ctx": 2048}}}
SAID = {"choices": [{"message": {"content": "no JSON"}, "finish_reason": "stop"}]}


@pytest.fixture
def there(monkeypatch):
    with StandInEndpoint((200, SAID)) as there:
        monkeypatch.setenv("OPENAI_BASE_URL", there.url)
        settings.cache_clear()
        yield there


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p", "doc_id": "d", "text": "The river rises. " * 9, "split": "train"}])
    return store


def ask(store: LocalStore, **values) -> str:
    return str(go(store, write_needs, intents=["qa"], **({"llm": "m", "api": "chat"} | values)).ref)


@pytest.mark.parametrize(("told", "room"), [(VLLM, 4096), (LLAMA | PROPS, 2048)])
def test_less_room_than_is_counted_on_ends_a_step_before_anything_is_asked(store, there, told, room):
    there.pages = told
    with pytest.raises(InputError, match=rf"'m' .* {room} tokens.*context_tokens=8192 .*--set context_tokens={room}"):
        ask(store)
    assert there.seen == []
    ask(store, context_tokens=room)
    assert there.seen


@pytest.mark.parametrize(
    "told",
    [
        LLAMA,
        {},
        {"/v1/models": {"data": [{"id": "a", "max_model_len": 5}, {"id": "b"}]}},
        {"/v1/models": {"data": [{"id": "m", "max_model_len": "5", "meta": []}]}},
        {"/v1/models": ["m"]},
        {"/v1/models": b"<html>"},
    ],
    ids=["enough", "no_list", "others", "no_number", "no_object", "no_json"],
)
def test_an_endpoint_that_tells_nothing_is_asked_as_before(store, there, told):
    there.pages = told
    ask(store)
    assert there.seen


def test_what_an_endpoint_tells_has_no_part_in_the_version(store, there):
    there.pages = {}
    silent = ask(store, context_tokens=2048)
    assert write_needs.parse({"llm": "m", "context_tokens": 2048}).identity()["context_tokens"] == 2048
    store.delete(f"versions/{silent.replace('@', '/')}.json")
    there.pages = VLLM
    assert ask(store, context_tokens=2048) == silent


def test_a_model_that_continues_a_text_is_not_held_to_it(store, there):
    there.pages, there.script[:] = VLLM, [(200, {"choices": [{"text": " no"}]})]
    ask(store, api="completions")
    assert there.seen


def test_models_are_listed_with_their_room():
    assert contexts(VLLM["/v1/models"]) == {"other": 512, "m": 4096}
    assert contexts(LLAMA["/v1/models"]) == {"/m.gguf": 32768}
    served = {"data": [{"id": "m", "meta": {"n_ctx": 1024, "n_ctx_train": 8192}}]}
    assert contexts(served) == {"m": 1024}
    assert contexts({"data": 5}) == contexts(None) == {}


def test_a_real_server_tells_its_room(store, small_llm, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", small_llm)
    settings.cache_clear()
    try:
        with pytest.raises(InputError, match=r"4096 tokens.*context_tokens=8192"):
            ask(store, llm=SMALL_LLM)
    finally:
        settings.cache_clear()
