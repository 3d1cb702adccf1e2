"""Who writes is said once, and what cannot be meant is refused before anything starts."""

from __future__ import annotations

import httpx
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.recorded_llm import LICENCE
from pipeline_tasks.demo.writer import RECORDING, SMALL, writer


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch):
    """Settings with this endpoint, or with none."""
    return lambda url: settings().model_copy(update={"openai_base_url": url})


def test_the_recording_answers_under_its_name_and_its_licence_is_known(endpoint) -> None:
    with writer("", endpoint(""), RECORDING) as chosen:
        assert chosen.llm.startswith("recorded-disaster-") and chosen.environment["FOUNDRY_LLM_LICENCE"] == LICENCE
        models = httpx.get(f"{chosen.environment['OPENAI_BASE_URL']}/models").json()["data"]
        assert [model["id"] for model in models] == [chosen.llm]


def test_a_configured_endpoint_is_used_and_nothing_is_started(endpoint) -> None:
    with writer("gpt-x", endpoint("http://example.org/v1"), RECORDING) as chosen:
        assert (chosen.llm, chosen.environment) == ("gpt-x", {})


@pytest.mark.parametrize("llm", ["", RECORDING, SMALL])
def test_an_endpoint_without_the_name_of_its_model_is_refused(endpoint, llm: str) -> None:
    with pytest.raises(InputError, match="make demo LLM=NAME"), writer(llm, endpoint("http://a/v1"), RECORDING):
        pass


def test_a_model_without_an_endpoint_is_refused(endpoint) -> None:
    with pytest.raises(InputError, match="set OPENAI_BASE_URL"), writer("gpt-x", endpoint(""), RECORDING):
        pass
