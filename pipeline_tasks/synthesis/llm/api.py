"""What goes to an OpenAI-compatible endpoint and what comes back: requests and answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

from pipeline_tasks.core.paid.endpoint import Fault, Tokens
from pipeline_tasks.core.paid.endpoint.usage import tokens_of, whole
from pipeline_tasks.core.paid.response_store import BROKEN_OFF
from pipeline_tasks.synthesis.llm.log_probs import LogProbs, kept_log_probs

Api = Literal["completions", "chat"]
PATHS: dict[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
CONTENT_FILTER = "content_filter"
TEMPLATE_TOKENS = 64
"""Tokens that a chat template may add to a prompt."""
_THOUGHT = "</think>"
"""Ends what some models think aloud before they answer, where their server does not give that apart."""


@dataclass(frozen=True)
class Request:
    """One prompt with its sampling parameters.

    Attributes:
        prompt: the text to continue, or the last message of a chat.
        max_tokens: of the answer, at most.
        temperature: 0 for the likeliest answer.
        stop: where the answer ends.
        seed: of the sampling.
        system: the first message of a chat, if any.
        turns: messages of a chat before the last, by turns user and assistant.
        fields: of the JSON object that a chat has to answer with; none where any text will do.
        echo: whether the prompt comes back too, with the log-probabilities of its tokens (completions).
        logprobs: likeliest tokens that are told at each place, with their log-probabilities; 0: none (completions).
        reasoning_tokens: that the model may think with beside its answer; such models take no temperature (chat).
    """

    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    system: str = ""
    turns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    echo: bool = False
    logprobs: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True)
class Response:
    """One answer.

    Attributes:
        response_id: sha256 of the canonical request.
        text: the answer, without what was thought aloud before it; hostile until parsed.
        prompt_tokens: as counted by the endpoint.
        completion_tokens: as counted by the endpoint.
        cached: whether it came from the response store and cost nothing now.
        cost_usd: what the answer cost when it was bought (the same on every later read).
        finish_reason: ``stop``, ``length`` (cut off) or ``content_filter`` (refused; the text is empty).
        created: the endpoint's own time of the answer, in Unix seconds.
        log_probs: of its tokens, where the request asked for them.
    """

    response_id: str
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool
    cost_usd: float
    finish_reason: str
    created: int
    log_probs: LogProbs | None = None


def body_of(request: Request, model: str, api: Api) -> dict[str, Any]:
    """The JSON body of ``request``: all that decides its answer, and so its identity."""
    if request.reasoning_tokens:
        sampling: dict[str, Any] = {"max_completion_tokens": longest_of(request), "seed": request.seed}
    else:
        sampling = {name: getattr(request, name) for name in ("max_tokens", "temperature", "seed")}
    fields: dict[str, Any] = {"model": model, "stop": list(request.stop), **sampling}
    if api == "completions":
        options = {name: value for name in ("echo", "logprobs") if (value := getattr(request, name))}
        return fields | {"prompt": request.prompt} | options
    form = {"response_format": _object_of(request.fields)} if request.fields else {}
    return fields | {"messages": _messages(request)} | form


def longest_of(request: Request) -> int:
    """Tokens that an answer may have, with what is thought before it."""
    return request.max_tokens + request.reasoning_tokens


def limit_of(body: dict[str, Any]) -> int:
    """Tokens that an answer to a request with this body may have."""
    return int(body.get("max_completion_tokens") or body["max_tokens"])


def _messages(request: Request) -> list[dict[str, str]]:
    """The request as a chat."""
    said = [{"role": role, "content": text} for role, text in zip(cycle(("user", "assistant")), request.turns)]
    system = [{"role": "system", "content": request.system}] if request.system else []
    return [*system, *said, {"role": "user", "content": request.prompt}]


def _object_of(fields: Sequence[str]) -> dict[str, Any]:
    """``response_format`` for a JSON object with these texts and nothing else."""
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(fields),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """``body`` as it goes over the wire: some servers refuse an empty list of stops."""
    return body if body["stop"] else {name: value for name, value in body.items() if name != "stop"}


def at_most(request: Request) -> Tokens:
    """Tokens that an answer can take. No tokenizer makes more than one of a byte."""
    texts = (request.prompt, request.system, *request.turns)
    return Tokens(sum(len(text.encode()) + TEMPLATE_TOKENS for text in texts if text), longest_of(request))


def answer_of(payload: dict[str, Any], api: Api, body: dict[str, Any]) -> tuple[dict[str, Any], Tokens | None]:
    """What is kept of an endpoint's answer to ``body``, and the tokens that it took.

    Its reasoning is kept where it gives that apart, and log-probabilities where they were asked for.

    Raises:
        LookupError: a field is missing (so do TypeError and ValueError: it has the wrong kind).
        Fault: the endpoint broke the answer off.
        InputError: the endpoint leaves out log-probabilities.
    """
    choice = payload["choices"][0]
    if (reason := choice.get("finish_reason")) in BROKEN_OFF:
        raise Fault("bad_answer", f"broke its answer off ({reason})")
    said, name = (choice["message"], "content") if api == "chat" else (choice, "text")
    text = said.get(name) if choice.get("finish_reason") else said[name]  # an answer that was filtered may have none
    thought = said.get("reasoning_content") if api == "chat" else None
    tokens = tokens_of(payload.get("usage"))
    answer = {
        "text": _joined(text),
        "finish_reason": str(choice.get("finish_reason") or "stop"),
        "usage": {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion},
        "model": str(payload.get("model") or ""),
        "created": whole(payload.get("created")) or 0,
        **({"reasoning": str(thought)} if thought else {}),
        **({"log_probs": kept_log_probs(choice, body)} if "logprobs" in body else {}),
    }
    return _utf8(answer), tokens if sum(tokens) else None


def _joined(text: Any) -> str:
    """A text, which some endpoints give in pieces."""
    if isinstance(text, list):
        return "".join(piece["text"] for piece in text if piece.get("type", "text") == "text")
    return str(text or "")


def _utf8(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with a question mark for what no file can hold, such as half of an emoji at which it was cut."""
    return dict(json.loads(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")))


def refused_answer(model: str) -> dict[str, Any]:
    """What is kept where the endpoint refuses a prompt for its content."""
    return {"text": "", "finish_reason": CONTENT_FILTER, "usage": {}, "model": model, "created": 0}


def _log_probs(record: dict[str, Any]) -> LogProbs | None:
    kept = record["response"].get("log_probs")
    if kept is None:
        return None
    return LogProbs.of_echo(kept) if record["request"].get("echo") else LogProbs(**kept)


def response_of(response_id: str, record: dict[str, Any], *, cached: bool) -> Response:
    """A stored record as a :class:`Response`."""
    answer = record["response"]
    return Response(
        response_id=response_id,
        text=answer["text"].rpartition(_THOUGHT)[2],
        prompt_tokens=answer["usage"].get("prompt_tokens", 0),
        completion_tokens=answer["usage"].get("completion_tokens", 0),
        cached=cached,
        cost_usd=record["cost_usd"],
        finish_reason=answer["finish_reason"],
        created=answer["created"],
        log_probs=_log_probs(record),
    )
