"""Ask an OpenAI-compatible endpoint, paying for no answer twice.

A request is named by the sha256 of what decides its answer: model, api, prompt and sampling. Neither the endpoint nor
the key is part of it, so an answer bought from one endpoint serves when another hosts the same model. The answer is
stored before it is used. Only an answer that was on its way when the process was killed can be lost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.response_store import ResponseStore
from pipeline_tasks.synthesis.llm_api import FREE, Api, Price, Request, Response, answer_of, body_of, response_of
from pipeline_tasks.synthesis.llm_errors import as_foundry_error, is_refusal

__all__ = ["LLMClient", "Price", "Request", "Response"]


class LLMClient:
    """A client of one model at one endpoint; safe to share between threads.

    Args:
        base_url: the endpoint with its version path, such as ``http://127.0.0.1:8080/v1``.
        api_key: sent as bearer token, and nowhere else; may be empty for a local server.
        model: the endpoint's name for the model.
        api: ``completions`` continues the prompt; ``chat`` sends it as one user message.
        store: where answers are kept.
        prices: dollars by model name; a model that is not listed is free.
        timeout_s: limit of one attempt.
        max_retries: further attempts after 429, 5xx, a time-out or a lost connection, with growing pauses.

    Raises:
        InputError: ``base_url`` is no http(s) URL, or carries a secret itself.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        api: Api,
        store: ResponseStore,
        *,
        prices: dict[str, Price] | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 5,
    ) -> None:
        if api not in ("completions", "chat"):
            raise InputError(f"api is {api!r}; it must be 'completions' or 'chat'")
        self.model = model
        self.api: Api = api
        self.price = (prices or {}).get(model, FREE)
        self._host = _checked_host(base_url)
        self._base_url, self._api_key = base_url, api_key
        self._store = store
        self._timeout_s, self._max_retries = timeout_s, max_retries
        self._openai: Any = None
        self._opening = threading.Lock()

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
            TransientError: the endpoint stayed busy, broken or unreachable through all retries.
            InputError: the key, the model or the request is refused.
        """
        return self.ask(Request(prompt, max_tokens, temperature, tuple(stop), seed))

    def ask(self, request: Request) -> Response:
        """:meth:`complete` for a :class:`Request`."""
        body = body_of(request, self.model, self.api)
        response_id = digest({"api": self.api, "body": body})
        paid = self.price != FREE
        record, cached = self._store.get_or_buy(response_id, lambda: self._call(body, response_id), alone=paid)
        return response_of(response_id, record, cached=cached)

    def complete_many(self, requests: Iterable[Request], concurrency: int = 1) -> Iterator[Response]:
        """The answers to ``requests`` in their order, ``concurrency`` at a time, reading ahead twice as far.

        Raises:
            TransientError: as for :meth:`complete`; answers that came before it are stored.
            InputError: as for :meth:`complete`.
        """
        with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="llm") as pool:
            waiting: deque[Future[Response]] = deque()
            try:
                for request in requests:
                    waiting.append(pool.submit(self.ask, request))
                    if len(waiting) >= 2 * concurrency:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _call(self, body: dict[str, Any], response_id: str) -> dict[str, Any]:
        import openai

        client = self._client()
        resource = client.chat.completions if self.api == "chat" else client.completions
        headers = {"Idempotency-Key": response_id}
        wanted = body if body["stop"] else {name: value for name, value in body.items() if name != "stop"}
        try:
            raw = resource.with_raw_response.create(**wanted, extra_headers=headers)
            answer = answer_of(raw.http_response.json(), self.api)
        except openai.APIError as error:
            if not is_refusal(error):
                raise as_foundry_error(error, self._host, self.model, self._api_key) from None
            answer = {"text": "", "finish_reason": "content_filter", "usage": {}, "model": self.model, "created": 0}
        except (ValueError, LookupError, TypeError) as error:
            raise TransientError(
                f"{self._host} sent an answer that is not of the {self.api} API ({type(error).__name__}); "
                "check that the endpoint is OpenAI-compatible, and try again"
            ) from None
        usage = answer["usage"]
        cost = self.price.of(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
        return {"api": self.api, "request": body, "response": answer, "cost_usd": cost}

    def _client(self) -> Any:
        with self._opening:
            if self._openai is None:
                import openai

                self._openai = openai.OpenAI(
                    base_url=self._base_url,
                    api_key=self._api_key or "none",
                    timeout=self._timeout_s,
                    max_retries=self._max_retries,
                )
            return self._openai


def _checked_host(base_url: str) -> str:
    """The endpoint without anything that may be secret, fit for messages."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("the LLM endpoint is not an http(s) URL; give one such as http://127.0.0.1:8080/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"the URL of the LLM endpoint {parts.hostname} carries a user name or query; pass the key as api_key"
        )
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
