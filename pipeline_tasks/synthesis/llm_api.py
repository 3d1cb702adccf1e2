"""What goes to an OpenAI-compatible endpoint and what comes back: requests, answers, prices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Api = Literal["completions", "chat"]


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


def body_of(request: Request, model: str, api: Api) -> dict[str, Any]:
    """The JSON body of ``request``: all that decides its answer, and so its identity."""
    fields = {name: value for name, value in asdict(request).items() if name != "prompt"}
    fields["stop"] = list(request.stop)
    if api == "chat":
        return {"model": model, "messages": [{"role": "user", "content": request.prompt}], **fields}
    return {"model": model, "prompt": request.prompt, **fields}


def answer_of(payload: dict[str, Any], api: Api) -> dict[str, Any]:
    """What is kept of an endpoint's answer.

    Raises:
        LookupError: a field is missing (so do TypeError and ValueError: it has the wrong kind).
    """
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


def response_of(response_id: str, record: dict[str, Any], *, cached: bool) -> Response:
    """A stored record as a :class:`Response`."""
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
