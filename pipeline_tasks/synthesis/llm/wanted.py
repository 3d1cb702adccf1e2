"""A run of a step that asks nobody: what it would ask, and what of that has an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pipeline_tasks.core.execution import memo
from pipeline_tasks.core.paid.endpoint import Endpoint, NoAnswer, Terms, Tokens
from pipeline_tasks.core.paid.response_store import Keep, ResponseStore
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.synthesis.llm.api import Api, Request, Response, at_most
from pipeline_tasks.synthesis.llm.client import LLMClient

NOT_BOUGHT = "not_bought"
STAND_IN = "what a model would write here, in a sentence or two of some twenty words, had it been asked already"
_NOBODY = "http://127.0.0.1/v1"
"""An address for what is never sent."""
_AT_ONCE = 16
"""As if so many requests could be open, though none is sent: answers are read side by side, from a bucket as well."""


@dataclass(frozen=True)
class Wanted:
    """One request of a run.

    Attributes:
        size_bytes: of its prompt.
        longest: tokens that its answer may have.
        took: tokens that its answer has, where it is stored; None where it is not.
        is_open: whether it is on its way in a batch; else what is not stored would be bought.
    """

    size_bytes: int
    longest: int
    took: Tokens | None
    is_open: bool = False


@dataclass
class QuoteRun(Run):
    """A run whose requests are noted: stored answers are given, and for any other the row is refused.

    Attributes:
        wanted: the requests so far.
        unanswered: response id -> request and its body, of those that have no answer; empty unless it ``keeps`` them.
        keeps: the bodies, which take the memory of all that would be sent.
        on_their_way: request -> the batch that brings its answer.
    """

    wanted: list[Wanted] = field(default_factory=list)
    unanswered: dict[str, tuple[Request, dict[str, Any]]] = field(default_factory=dict)
    keeps: bool = False
    on_their_way: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store, job: Job, inputs: Inputs, **more: Any) -> QuoteRun:
        """A run for a part of ``job``, whose ``inputs`` are opened once for all parts."""
        return cls(store, inputs, 0, f"{job.step.name}, unasked", job.step.name, **more)

    def stands_for(self, reason: str) -> bool:
        """Whether :data:`STAND_IN` is worked on in the place of what was refused, so that the bill has that work, too.

        A run that keeps requests works on none: they are sent as they are.
        """
        return not self.keeps and reason == f"llm_{NOT_BOUGHT}"

    def client(self, model: str, api: Api) -> LLMClient:
        """A client that buys nothing."""
        return _Client(Endpoint(_NOBODY, "", model, terms=Terms(_AT_ONCE)), model, api, self)


class _Client(LLMClient):
    def __init__(self, endpoint: Endpoint, model: str, api: Api, run: QuoteRun) -> None:
        super().__init__(endpoint, model, api, ResponseStore(run.store), run.on_their_way)
        self._wanted, self._unanswered = run.wanted, run.unanswered if run.keeps else None

    def ask(self, request: Request) -> Response:
        response = super().ask(request)
        self._note(request, Tokens(response.prompt_tokens, response.completion_tokens))
        return response

    def _buy(self, request: Request, body: dict[str, Any], response_id: str, keep: Keep) -> NoReturn:
        self._note(request, None, response_id in self._on_their_way)
        if self._unanswered is not None:
            self._unanswered[response_id] = request, body
        raise NoAnswer(NOT_BOUGHT, "it would be bought")

    def _note(self, request: Request, took: Tokens | None, is_open: bool = False) -> None:
        most = at_most(request)
        self._wanted.append(Wanted(most.prompt, most.completion, took, is_open))


def wanted_by(store: Store, job: Job) -> Iterator[tuple[str, Request, dict[str, Any]]]:
    """Response id, request and body of all that a run of ``job`` would buy, part by part."""
    inputs, seen = Inputs(job.open(store)), set[str]()
    source = inputs.each(next(iter(job.step.reads)))[0]
    for part in (source.part(index) for index in memo.missing(store, job)):
        quote = QuoteRun.of(store, job, inputs, keeps=True)
        job.step.body(part, job.params, quote)
        fresh = {one: asked for one, asked in quote.unanswered.items() if one not in seen}
        seen |= fresh.keys()
        yield from ((one, *asked) for one, asked in fresh.items())
