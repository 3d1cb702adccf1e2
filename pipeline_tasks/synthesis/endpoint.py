"""The configured LLM endpoint, and the parameters that every step asking it shares."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.response_store import ResponseStore
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, tuning
from pipeline_tasks.domains import prompts_sha256
from pipeline_tasks.models.registry import models
from pipeline_tasks.models.use import LLM
from pipeline_tasks.synthesis.llm_client import LLMClient, Price, Request, Response
from pipeline_tasks.synthesis.prompts import Prompt

INTENTS = ("qa", "qadoc", "twitter", "factcheck", "nli", "sts")


class LlmParams(StepParams):
    """Which model writes, and how."""

    llm: str = Field(LLM, description="the endpoint's name of the model")
    api: Literal["completions", "chat"] = Field("completions", description="chat for instruction-following models")
    temperature: float = Field(0.0, ge=0, le=2, description="0 makes answers repeatable")
    concurrency: int = tuning(1, ge=1, description="requests at once")

    def identity(self) -> dict[str, Any]:
        """Model and sampling, and what the prompts say."""
        return super().identity() | {"prompts_sha256": prompts_sha256(*INTENTS)}

    def licences(self) -> dict[str, str]:
        """What the LLM writes is under: the settings say, else the registry, where it knows the model's weights."""
        known = (spec.licence for spec in models() if spec.name == self.llm)
        licence = settings().llm_licence or next(known, "")
        return {self.llm: licence} if licence else {}


def ask_all(prompts: list[Prompt], params: LlmParams, run: Run) -> list[Response]:
    """Answers in order; each is bought once, ever.

    Raises:
        InputError: no endpoint is configured, or it refuses the key or the model.
        TransientError: the endpoint stays busy or broken; answers so far are kept.
    """
    if not prompts:
        return []
    found = settings()
    if not found.openai_base_url:
        raise InputError("no LLM endpoint is configured; set OPENAI_BASE_URL (and OPENAI_API_KEY if it wants one)")
    client = LLMClient(
        found.openai_base_url,
        found.openai_api_key.get_secret_value(),
        params.llm,
        params.api,
        ResponseStore(run.store),
        prices={params.llm: Price(found.llm_price_in, found.llm_price_out)},
    )
    requests = [Request(p.text, p.max_tokens, params.temperature, p.stop, p.seed) for p in prompts]
    responses = []
    with run.progress(len(prompts), "answers") as meter:
        for response in client.complete_many(requests, params.concurrency):
            responses.append(response)
            meter.advance()
            run.count("llm_answers_reused" if response.cached else "llm_requests")
            if not response.cached:
                run.count("prompt_tokens", response.prompt_tokens)
                run.count("completion_tokens", response.completion_tokens)
                run.count("cost_usd", response.cost_usd)
    return responses
