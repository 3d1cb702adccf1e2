"""The configured LLM endpoint, and the parameters that every step asking it shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import tee
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import FREE, Endpoint, PaidParams, Price, Refused, Unanswered, price_at
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.paid.spending import Limit, limits
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.step import added
from pipeline_tasks.domains import domain_folder, prompts_sha256
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.prices import listed
from pipeline_tasks.models.registry import models
from pipeline_tasks.models.use import LLM
from pipeline_tasks.synthesis.checking.checks import Kind
from pipeline_tasks.synthesis.llm.acceptance import Acceptance
from pipeline_tasks.synthesis.llm.api import CONTENT_FILTER
from pipeline_tasks.synthesis.llm.client import LLMClient, Request, Response
from pipeline_tasks.synthesis.llm.context_check import check_context
from pipeline_tasks.synthesis.llm.open_batches import on_their_way
from pipeline_tasks.synthesis.llm.wanted import QuoteRun
from pipeline_tasks.synthesis.prompting.prompts import ChatTerms, Prompt
from pipeline_tasks.synthesis.prompting.traits import traits_sha256

ACCOUNT = "llm"
SHOWN = 300
"""Characters of a refused answer that its reject shows."""


class LlmParams(PaidParams):
    """Which model writes, and how."""

    llm: str = Field(LLM, description="model name at the endpoint")
    api: Literal["completions", "chat"] = Field(
        "completions", description="API of the endpoint; chat for instruction-tuned models"
    )
    temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature; 0: repeatable answers")
    writer: Literal["", Kind] = Field(
        "", description="kind of model: chat: instruction-tuned, completion: base model; empty: as the api"
    )
    context_tokens: int = Field(8_192, ge=1, description="context window, in tokens: prompt and answer (chat)")
    reasoning_tokens: int = added(
        0,
        ge=0,
        description="tokens for a reasoning model's thinking, 4096 say for gpt-5 (chat); 0: it does not reason",
    )
    json_schema: bool = Field(
        True, description="structured output: the endpoint takes a JSON schema of its answer (chat)"
    )
    checks: dict[str, float] = Field(
        {}, description="thresholds of the quality filters that differ: measure or measure/intent -> bound"
    )
    again: str = Field("", description="any new value (a date) retries what has no answer yet, and nothing else")

    @model_validator(mode="after")
    def _thinks_in_chat(self) -> LlmParams:
        if self.reasoning_tokens and self.api != "chat":
            raise ValueError("reasoning_tokens are for a model that is asked by chat: set api=chat")
        return self

    def identity(self) -> dict[str, Any]:
        """Model and sampling, and what the prompts say; ``again`` where it is given."""
        fields = self.sampling() | {"prompts_sha256": prompts_sha256(*load_intents(domain_folder()))}
        return fields | ({"traits_sha256": traits_sha256(domain_folder())} if self.kind == "chat" else {})

    def sampling(self) -> dict[str, Any]:
        """The identity of what the domain's prompts have no part in."""
        fields = super().identity() | {"writer": self.kind}
        return {name: value for name, value in fields.items() if name != "again" or value}

    @property
    def kind(self) -> Kind:
        """The kind of writer: as told, else the one that the endpoint's api is for."""
        return self.writer or ("chat" if self.api == "chat" else "completion")

    @property
    def told_tokens(self) -> int:
        """What the model reads and answers at once."""
        return self.context_tokens - self.reasoning_tokens

    @property
    def chat_terms(self) -> ChatTerms:
        """How a chat is asked."""
        return ChatTerms(structured=self.json_schema, context_tokens=self.told_tokens)

    def licences(self) -> dict[str, str]:
        """What the LLM writes is under: the settings say, else the registry, where it knows the model's weights."""
        known = (spec.licence for spec in models() if spec.name == self.llm)
        licence = settings().llm_licence or next(known, "")
        return {self.llm: licence} if licence else {}


def llm_price(found: Settings, model: str) -> Price:
    """What the configured endpoint takes for ``model``: as told, nothing on this machine, or what is listed.

    Without an endpoint it is what is listed for that model anywhere.

    Raises:
        InputError: nobody knows.
    """
    variables = {"FOUNDRY_LLM_PRICE_IN": found.llm_price_in, "FOUNDRY_LLM_PRICE_OUT": found.llm_price_out}
    entry = listed(model, urlsplit(found.openai_base_url).hostname or "")
    return price_at(found.openai_base_url, variables, entry.price if entry else None)


def llm_limits(found: Settings) -> tuple[Limit, ...]:
    """What a month may cost."""
    return limits(
        "month",
        usd=("FOUNDRY_LLM_USD_PER_MONTH", found.llm_usd_per_month),
        tokens=("FOUNDRY_LLM_TOKENS_PER_MONTH", found.llm_tokens_per_month),
    )


@contextmanager
def opened(params: LlmParams, run: Run) -> Iterator[LLMClient]:
    """A client of the configured endpoint; what it counts goes to the counters of ``run``, however the block ends.

    A run that asks nobody brings its own.

    Raises:
        InputError: no endpoint is configured, its price is not known, the model reads less than is counted on, or a
            batch that was written down cannot be read.
    """
    if isinstance(run, QuoteRun):
        yield run.client(params.llm, params.api)
        return
    found = settings()
    if not found.openai_base_url:
        raise InputError("no LLM endpoint is configured; set OPENAI_BASE_URL (and OPENAI_API_KEY if it wants one)")
    terms, price = params.terms(run), llm_price(found, params.llm)
    ledger = terms.ledger(run.store, ACCOUNT, *llm_limits(found), paid=price != FREE)
    key = found.openai_api_key.get_secret_value()
    with Endpoint(found.openai_base_url, key, params.llm, terms=terms, price=price, ledger=ledger) as endpoint:
        if params.kind == "chat":
            check_context(endpoint, found.openai_base_url, params.llm, params.context_tokens)
        client = LLMClient(endpoint, params.llm, params.api, ResponseStore(run.store), on_their_way(run.store))
        try:
            yield client
        finally:
            run.counters.update(client.counts)


def ask_all(
    prompts: Sequence[Prompt],
    params: LlmParams,
    run: Run,
    then: Callable[[int, Response], Prompt | None] = lambda _, __: None,
) -> list[Response | Unanswered]:
    """Answers in order, each bought once, ever; what the endpoint refuses or fails at says why.

    ``then`` may put another prompt in the place of one, given its place and the answer to it.

    Raises:
        InputError: no endpoint is configured, it refuses the key, the model or everything, or the budget is spent.
        TransientError: the endpoint stays busy or broken; answers so far are kept.
    """

    def request_of(prompt: Prompt) -> Request:
        chat = (prompt.system, prompt.turns, prompt.fields if prompt.structured else ())
        sampling = (prompt.max_tokens, params.temperature, prompt.stop, prompt.seed)
        return Request(prompt.text, *sampling, *chat, reasoning_tokens=params.reasoning_tokens)

    def asked_then(place: int, answer: Response) -> Request | None:
        prompt = then(place, answer)
        return request_of(prompt) if prompt else None

    return list(ask_each(map(request_of, prompts), len(prompts), params, run, asked_then))


def ask_each(
    requests: Iterable[Request],
    n: int,
    params: LlmParams,
    run: Run,
    then: Callable[[int, Response], Request | None] = lambda _, __: None,
) -> Iterator[Response | Unanswered]:
    """:func:`ask_all` for ``n`` requests, one after the other: neither they nor their answers are all held at once.

    Raises:
        InputError, TransientError: as :func:`ask_all`.
    """
    if not n:
        return
    with opened(params, run) as client, run.progress(n, "answers") as meter:
        client.endpoint.pace.say = meter.say
        acceptance = Acceptance(client)
        asked, noted = tee(requests)
        for request, outcome in zip(noted, client.ask_many(asked, then), strict=True):
            acceptance.note(request, outcome)
            yield _without_filtered(outcome, run)
            meter.advance()
        acceptance.conclude()


def _without_filtered(outcome: Response | Unanswered, run: Run) -> Response | Unanswered:
    """A refusal for an answer that was filtered, which may have been paid for all the same."""
    if isinstance(outcome, Response) and outcome.finish_reason == CONTENT_FILTER:
        run.responses.add(outcome.response_id)
        return Refused("refused_request", f"{CONTENT_FILTER} {outcome.text[:SHOWN]}".rstrip(), CONTENT_FILTER)
    return outcome
