"""Ask an OpenAI-compatible endpoint, paying for no answer twice.

A request is named by the sha256 of what decides its answer: model, api, prompt and sampling. Neither the endpoint nor
the key is part of it, so an answer bought from one endpoint serves when another hosts the same model. The answer is
stored before it is used. Only an answer that was on its way when the process was killed can be lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.synthesis.llm_errors import as_foundry_error, is_refusal
from pipeline_tasks.synthesis.response_store import ResponseStore

Api = Literal["completions", "chat"]
CLAIM_POLL_S = 0.25

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Price:
    """Units: US dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for one call."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


FREE = Price()


@dataclass(frozen=True)
class Request:
    """One prompt with its sampling parameters."""

    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Response:
    """One answer.

    Attributes:
        response_id: sha256 of the canonical request.
        text: the answer; hostile until parsed.
        prompt_tokens: as counted by the endpoint.
        completion_tokens: as counted by the endpoint.
        cached: whether it came from the response store and cost nothing now.
        cost_usd: what the answer cost when it was bought (the same on every later read).
        finish_reason: ``stop``, ``length`` (cut off) or ``content_filter`` (refused; the text is empty).
        created: the endpoint's own time of the answer, in Unix seconds.
    """

    response_id: str
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool
    cost_usd: float
    finish_reason: str
    created: int


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
        self._claim_s = 2 * timeout_s * (max_retries + 1)
        self._openai: Any = None
        self._opening = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}

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
        body = self._body(request)
        response_id = digest({"api": self.api, "body": body})
        with self._asking.setdefault(response_id, threading.Lock()):
            try:
                record = self._stored_or_claimed(response_id)
                cached = record is not None
                if record is None:
                    record = self._store.write(response_id, self._call(body, response_id))
            finally:
                self._asking.pop(response_id, None)
        return _response(response_id, record, cached=cached)

    def complete_many(self, requests: Iterable[Request], concurrency: int = 1) -> Iterator[Response]:
        """The answers to ``requests`` in their order, ``concurrency`` at a time, reading ahead no further than twice that.

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

    def _body(self, request: Request) -> dict[str, Any]:
        fields = {name: value for name, value in asdict(request).items() if name != "prompt"}
        fields["stop"] = list(request.stop)
        if self.api == "chat":
            return {"model": self.model, "messages": [{"role": "user", "content": request.prompt}], **fields}
        return {"model": self.model, "prompt": request.prompt, **fields}

    def _stored_or_claimed(self, response_id: str) -> dict[str, Any] | None:
        """The stored answer, or None once it is this process's turn to buy it."""
        while True:
            record = self._store.read(response_id)
            if record is not None or self.price == FREE:
                return record
            if self._store.claim(response_id, for_s=self._claim_s):
                return self._store.read(response_id)
            time.sleep(CLAIM_POLL_S)

    def _call(self, body: dict[str, Any], response_id: str) -> dict[str, Any]:
        import openai

        client = self._client()
        resource = client.chat.completions if self.api == "chat" else client.completions
        headers = {"Idempotency-Key": response_id}
        wanted = body if body["stop"] else {name: value for name, value in body.items() if name != "stop"}
        try:
            raw = resource.with_raw_response.create(**wanted, extra_headers=headers)
            answer = _answer(raw.http_response.json(), self.api)
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


def _answer(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """What is kept of an endpoint's answer. Raises LookupError, TypeError or ValueError where it is malformed."""
    choice = payload["choices"][0]
    text = (choice["message"]["content"] if api == "chat" else choice["text"]) or ""
    usage = payload.get("usage") or {}
    return {
        "text": str(text),
        "finish_reason": str(choice.get("finish_reason") or "stop"),
        "usage": {name: int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")},
        "model": str(payload.get("model") or ""),
        "created": int(payload.get("created") or 0),
    }


def _response(response_id: str, record: dict[str, Any], *, cached: bool) -> Response:
    answer = record["response"]
    return Response(
        response_id=response_id,
        text=answer["text"],
        prompt_tokens=answer["usage"].get("prompt_tokens", 0),
        completion_tokens=answer["usage"].get("completion_tokens", 0),
        cached=cached,
        cost_usd=record["cost_usd"],
        finish_reason=answer["finish_reason"],
        created=answer["created"],
    )


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
