"""Ask an OpenAI-compatible endpoint, paying for no answer twice.

A request is named by the sha256 of what decides its answer: model, api, prompt and sampling. Neither the endpoint nor
the key is part of it, so an answer bought from one endpoint serves when another hosts the same model. The answer is
stored before it is used, and before another request may have its place. Only answers that were on their way when the
process was killed can be lost, and these are ``concurrency`` at most.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.paid.endpoint import FREE, Bought, Endpoint, NoAnswer, Refused, Silent, Unanswered
from pipeline_tasks.core.paid.response_store import Keep, Record, ResponseStore
from pipeline_tasks.synthesis.llm.api import (
    CONTENT_FILTER,
    PATHS,
    Api,
    Request,
    Response,
    answer_of,
    at_most,
    body_of,
    refused_answer,
    response_of,
    sent,
)

__all__ = ["LLMClient", "Request", "Response"]
AHEAD = 256
"""Requests read ahead for each open one: while one hangs until it times out, and is asked again, all others go on."""
RESTING = 2
"""Threads for each request that may be open, so that one that waits to be asked again leaves its place to another."""
T = TypeVar("T")
CHECK = "check"
"""How requests are named that are asked anew each time."""
SHORT = "Hello, how are you today?"
"""What such a request says. One word may be one token, and an echo of a single token has no log-probability."""


class LLMClient:
    """A client of one model at one endpoint; safe to share between threads.

    Args:
        endpoint: where it is asked, and on which terms.
        model: the endpoint's name for the model.
        api: ``completions`` continues the prompt; ``chat`` sends it as one user message.
        store: where answers are kept.
        on_their_way: response id -> the key of the batch that brings its answer, which is not asked for meanwhile.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        api: Api,
        store: ResponseStore,
        on_their_way: Mapping[str, str] | None = None,
    ) -> None:
        if api not in PATHS:
            raise InputError(f"api is {api!r}; it must be 'completions' or 'chat'")
        self.model = model
        self.api: Api = api
        self.endpoint = endpoint
        self._store, self._on_their_way = store, on_their_way or {}
        self._silent, self._checking = False, threading.Lock()

    @property
    def counts(self) -> Counter[str]:
        """What was asked, bought and tried again so far."""
        return self.endpoint.counts

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int,
        temperature: float = 0.0,
        stop: tuple[str, ...] = (),
        seed: int = 0,
    ) -> Response:
        """The answer to ``prompt``: from the store where it was bought before, else from the endpoint.

        Raises:
            Unanswered: the endpoint does not answer this prompt.
            TransientError: the endpoint stayed busy, broken or unreachable.
            InputError: the key or the model is refused, the budget is spent, a batch that has not ended asks for it, or
                log-probabilities are left out.
        """
        return self.ask(Request(prompt, max_tokens, temperature, tuple(stop), seed))

    def ask(self, request: Request) -> Response:
        """:meth:`complete` for a :class:`Request`."""
        body = body_of(request, self.model, self.api)
        response_id = digest({"api": self.api, "body": body})
        paid = self.endpoint.price != FREE
        buy = partial(self._buy, request, body, response_id)
        record, cached = self._store.get_or_buy(response_id, buy, alone=paid)
        self.endpoint.count("llm_answers_reused" if cached else "llm_requests")
        return response_of(response_id, record, cached=cached)

    def ask_many(
        self, requests: Iterable[Request], then: Callable[[int, Response], Request | None] = lambda _, __: None
    ) -> Iterator[Response | Unanswered]:
        """The answers to ``requests`` in their order, as many at once as the terms allow, reading ahead.

        Args:
            requests: what is asked.
            then: given the place of a request and its answer, what is to be asked in its stead, if anything; called
                once a request, from several threads.

        Raises:
            TransientError: as for :meth:`complete`; answers that came before it are stored.
            InputError: as for :meth:`complete`.
        """
        concurrency = self.endpoint.terms.concurrency
        with ThreadPoolExecutor(max_workers=RESTING * concurrency, thread_name_prefix="llm") as pool:
            waiting: deque[Future[Response | Unanswered]] = deque()
            try:
                for place, request in enumerate(requests):
                    waiting.append(pool.submit(self._outcome, request, partial(then, place)))
                    if len(waiting) >= AHEAD * concurrency:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:
                self.endpoint.pace.stop()
                raise
            finally:
                for future in waiting:
                    future.cancel()

    def check(self, request: Request, attempts: int = 0) -> None:
        """Ask for a word on the terms of ``request``, to know whether the endpoint accepts anything; it is not kept.

        Args:
            request: the kind of request that it has to accept.
            attempts: how often it may fail; 0: as often as the terms say.

        Raises:
            Refused: it does not.
            TransientError: it says nothing.
        """
        short = replace(request, prompt=SHORT, system="", turns=())
        body, name = body_of(short, self.model, self.api), f"{CHECK}-{uuid4().hex}"
        self._post(short, body, name, lambda bought: bought, attempts)
        self.endpoint.count("llm_requests")

    def _outcome(self, request: Request, then: Callable[[Response], Request | None]) -> Response | Unanswered:
        try:
            response = self.ask(request)
            other = None if response.finish_reason == CONTENT_FILTER else then(response)
            return self.ask(other) if other else response
        except Unanswered as unanswered:
            return unanswered

    def _buy(self, request: Request, body: dict[str, Any], response_id: str, keep: Keep) -> Record:
        def stored(answer: dict[str, Any], usd: float) -> Record:
            return keep({"api": self.api, "request": body, "response": answer, "cost_usd": usd})

        if batch := self._on_their_way.get(response_id):
            raise InputError(
                f"what is to be asked is on its way in a batch: wait for that (foundry batch STEP --wait), or delete "
                f"{batch} from the store to ask, and pay, once more"
            )
        try:
            return self._post(request, body, response_id, lambda bought: stored(bought.kept, bought.usd))
        except Refused as refused:
            if refused.code != CONTENT_FILTER:
                raise
            return stored(refused_answer(self.model), 0.0)
        except Silent as silent:
            if self._answers_nothing(request):
                raise
            raise NoAnswer("no_answer", silent.detail) from None

    def _answers_nothing(self, request: Request) -> bool:
        """Whether the endpoint fails at a short prompt too, so that its failure at ``request`` says nothing of that."""
        with self._checking:
            try:
                if not self._silent:
                    self.check(request, attempts=1)
            except (Unanswered, TransientError):
                self._silent = True
        return self._silent

    def _post(
        self,
        request: Request,
        body: dict[str, Any],
        name: str,
        keep: Callable[[Bought[dict[str, Any]]], T],
        attempts: int = 0,
    ) -> T:
        read, most = partial(answer_of, api=self.api, body=body), at_most(request)
        return self.endpoint.post(
            PATHS[self.api], sent(body), read, at_most=most, name=name, keep=keep, attempts=attempts
        )
