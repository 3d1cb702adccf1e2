"""Parameters that the operator's file says, where nobody gives any."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.cli.plan_chain import by_name
from pipeline_tasks.cli.sweep import nested
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import NEEDS, PASSAGES
from pipeline_tasks.synthesis.estimate import estimate
from tests.stores import put

FILE = '[default]\nllm = "m-1"\napi = "chat"\n[write_needs]\nsample_rate = 0.2\nllm = "m-2"\n'


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(text: str) -> Path:
        path = tmp_path / "parameters.toml"
        path.write_text(text)
        monkeypatch.setenv("FOUNDRY_PARAMETERS", str(path))
        settings.cache_clear()
        return path

    return write


def test_what_nobody_gives_is_as_the_file_says_for_a_step_and_then_for_all(told, tmp_path):
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [])
    put(store, NEEDS, [])
    before = plan(store, get_step("write_needs"), {"llm": "m-2", "api": "chat", "sample_rate": 0.2}).ref
    told(FILE)
    needs, pairs = (plan(store, get_step(name), {}).params.model_dump() for name in ("write_needs", "write_pairs"))
    assert (needs["llm"], needs["api"], needs["sample_rate"]) == ("m-2", "chat", 0.2)
    assert (pairs["llm"], pairs["api"]) == ("m-1", "chat")
    assert plan(store, get_step("write_needs"), {}).ref == before, "they are parameters like any other"
    assert plan(store, get_step("write_needs"), {"llm": "m-3"}).params.model_dump()["llm"] == "m-3"
    assert usual(get_step("crawl")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[write_need]\n", "no step is called 'write_need'; tables may be: default, "),
        ("[write_needs]\nllms = 1\n", "write_needs has no parameter 'llms'; there are: again, api"),
        ("[default]\nllms = 1\n", "no step has parameter 'llms'; there are: "),
        ("default = 1\n", "default = 1 is no table"),
        ("[", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_says_what_there_is(told, text, message):
    path = told(text)
    with pytest.raises(InputError, match=message) as caught:
        usual(get_step("write_needs"))
    assert str(path) in str(caught.value)


def test_a_value_that_cannot_be_is_refused_like_any_other(told, tmp_path):
    told("[write_needs]\nsample_rate = 3\n")
    with pytest.raises(InputError, match="write_needs: sample_rate=3"):
        plan(LocalStore(tmp_path), get_step("write_needs"), {})


@pytest.mark.parametrize("value", ["inf", "nan", float("inf")])
def test_a_number_that_is_not_finite_is_refused(tmp_path, value):
    with pytest.raises(InputError, match=r"k1.*finite number"):
        plan(LocalStore(tmp_path), get_step("rank_bm25"), {"k1": value})


def test_a_chain_and_a_bill_are_of_the_same_parameters_as_a_run(told, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [])
    told(FILE)
    needs, pairs = by_name(["write_needs", "write_pairs"], {"sample_rate": 0.5}, {})
    assert (needs.values["llm"], needs.values["sample_rate"], pairs.values["llm"]) == ("m-2", 0.5, "m-1")
    told('[default]\napi = "chat"\nllm = "m-1"\n[write_pairs]\nmax_run_usd = 0.05\n')
    bills = estimate(store, {}, {})
    assert {bill.step: bill.most_usd for bill in bills} == {"write_needs": 20, "write_pairs": 0.05}


def test_a_part_goes_beside_what_the_file_says_of_the_others(told):
    told('[adapt_to_corpus]\nobjective = {name = "list_mle", alpha = 3}\n')
    assert nested({"objective.scale": "3"}, ["adapt_to_corpus"])["objective"] == {
        "name": "list_mle", "alpha": 3, "scale": "3"
    }  # fmt: skip
