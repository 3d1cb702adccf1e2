"""Vectors from an OpenAI-compatible ``/embeddings`` endpoint, none of them paid for twice.

Texts are asked for in groups that their own digests decide, so that a text that comes or goes changes one group and not
all after it. An answer is stored before it is used, under the sha256 of model and texts: ``<id>.f32`` holds the vectors
and ``<id>.json`` what they cost. Only answers that were on their way when the process was killed can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any

import httpx
import numpy as np
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import canonical_json, digest
from pipeline_tasks.core.store import Store

MAX_TEXTS = 256
MAX_CHARACTERS = 200_000
LONGEST_PAUSE_S = 120.0
_ABOUT = 64
_TRANSIENT = (408, 409, 425, 429)


@dataclass(frozen=True)
class Answer:
    """Vectors of one group, [n, d] float32, the answer's id, and what it cost where it was bought just now."""

    response_id: str
    vectors: np.ndarray
    prompt_tokens: int
    cost_usd: float
    reused: bool


class _BusyError(Exception):
    def __init__(self, said: str, after_s: float | None = None) -> None:
        super().__init__(said)
        self.after_s = after_s


class EmbeddingsEndpoint:
    """A client of one model at one endpoint; safe to share between threads.

    Args:
        base_url: the endpoint with its version path, such as ``http://127.0.0.1:8000/v1``.
        api_key: sent as bearer token; may be empty.
        model: the endpoint's name for the model.
        dim: width of its vectors.
        store: where vectors are kept.
        price: dollars per million tokens.
        attempts: tries of one request; pauses grow, or are as long as the endpoint asks for.

    Raises:
        InputError: ``base_url`` is no http(s) URL.
    """

    def __init__(
        self, base_url: str, api_key: str, model: str, dim: int, store: Store, *, price: float = 0.0, attempts: int = 6
    ) -> None:
        url = httpx.URL(base_url.rstrip("/") + "/embeddings") if base_url else httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise InputError("the embeddings endpoint is no plain http(s) URL: set FOUNDRY_EMBEDDINGS_BASE_URL")
        self.model, self.dim = model, dim
        self._url, self._store, self._price = url, store, price
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(headers=headers, timeout=120.0)
        self._retrying = Retrying(
            stop=stop_after_attempt(attempts),
            wait=_pause,
            retry=retry_if_exception_type((httpx.TransportError, _BusyError)),
            reraise=True,
        )

    def answer(self, texts: Sequence[str]) -> Answer:
        """The vectors of ``texts``: from the store where they were bought before, else from the endpoint.

        Raises:
            TransientError: the endpoint stayed busy, broken or unreachable through all attempts.
            InputError: it refuses the key, the model or the request, or its vectors are of another width or not finite.
        """
        answer_id = digest({"api": "embeddings", "model": self.model, "texts": list(texts)})
        stem = f"responses/{answer_id[:2]}/{answer_id}"
        found = self._stored(stem, answer_id)
        if found is not None:
            return found
        vectors, tokens = self._read(self._ask(texts), len(texts))
        cost = tokens * self._price / 1e6
        usage = {"prompt_tokens": tokens, "completion_tokens": 0}
        record = {"api": "embeddings", "request": {"model": self.model}, "response": {"usage": usage}, "cost_usd": cost}
        self._store.create(f"{stem}.f32", vectors.astype("<f4").tobytes())
        self._store.create(f"{stem}.json", canonical_json(record))
        return Answer(answer_id, vectors, tokens, cost, reused=False)

    def _stored(self, stem: str, answer_id: str) -> Answer | None:
        kept = self._store.read(f"{stem}.f32") if self._store.exists(f"{stem}.json") else None
        if kept is None:
            return None
        return Answer(answer_id, np.frombuffer(kept, "<f4").reshape(-1, self.dim), 0, 0.0, reused=True)

    def _ask(self, texts: Sequence[str]) -> Any:
        try:
            return self._retrying(self._post, {"model": self.model, "input": list(texts), "encoding_format": "float"})
        except (httpx.TransportError, _BusyError) as error:
            raise TransientError(
                f"{self._url.host} did not embed ({type(error).__name__} {error}): see that it is up, and try again"
            ) from None

    def _post(self, body: dict[str, Any]) -> Any:
        answer = self._http.post(self._url, json=body)
        status = answer.status_code
        if status in _TRANSIENT or status >= 500:
            raise _BusyError(str(status), _retry_after(answer.headers.get("Retry-After", "")))
        if status != httpx.codes.OK:
            remedy = {401: "check the key", 403: "check the key", 404: "check the model's name and the version path"}
            raise InputError(
                f"{self._url.host} refused to embed with {self.model!r} ({status}): "
                f"{remedy.get(status, 'check the model and the length of the texts')}"
            )
        try:
            return answer.json()
        except ValueError:
            raise _BusyError("sent no JSON") from None

    def _read(self, payload: Any, n_texts: int) -> tuple[np.ndarray, int]:
        try:
            rows = sorted(payload["data"], key=lambda row: int(row["index"]))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
            in_order = [int(row["index"]) for row in rows] == list(range(n_texts))
            tokens = int((payload.get("usage") or {}).get("prompt_tokens") or 0)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{self._url.host} sent no answer of the embeddings API ({type(error).__name__}): check its URL"
            ) from None
        if not in_order or vectors.shape != (n_texts, self.dim) or not np.isfinite(vectors).all():
            raise InputError(
                f"{self._url.host} sent vectors of shape {vectors.shape} for {n_texts} texts with {self.model!r}, or "
                f"some with NaN; {n_texts} of width {self.dim} were expected: mend dim in the registry, or the endpoint"
            )
        return vectors, tokens


def groups(texts: Sequence[str]) -> Iterator[list[int]]:
    """Positions of ``texts`` (distinct) in groups that hardly change when a text comes or goes."""
    digests = [sha256(text.encode()).digest() for text in texts]
    group: list[int] = []
    size = 0
    for row in sorted(range(len(texts)), key=digests.__getitem__):
        if group and size + len(texts[row]) > MAX_CHARACTERS:
            yield group
            group, size = [], 0
        group.append(row)
        size += len(texts[row])
        if digests[row][-1] % _ABOUT == 0 or len(group) == MAX_TEXTS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _retry_after(said: str) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date; None where it holds neither."""
    try:
        return float(said)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None


_grows = wait_exponential(multiplier=0.5, max=30)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.after_s if isinstance(error, _BusyError) else None
    return min(LONGEST_PAUSE_S, max(0.0, _grows(state) if asked is None else asked))
