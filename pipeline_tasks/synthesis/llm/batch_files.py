"""Files of batches: which requests go into one file, and what a line of an ended batch says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import Fault, Tokens
from pipeline_tasks.core.paid.endpoint.errors import is_used_up
from pipeline_tasks.core.paid.endpoint.usage import tokens_of
from pipeline_tasks.synthesis.llm.api import CONTENT_FILTER, Api, Request, answer_of, at_most, limit_of, refused_answer

Why = Literal["", "row", "late", "account", "busy", "server"]

MOST = 10_000
"""Requests in one file, at most; endpoints allow five times as many, and answers have to fit into memory."""
MOST_BYTES = 64 << 20
"""Bytes of a file's requests, and of its answers at their longest, at most; endpoints allow 100 MB to 200 MB."""
_BYTES_OF_A_TOKEN, _BYTES_OF_A_LINE = 6, 512
_BYTES_OF_A_LOG_PROB, _BYTES_OF_AN_ECHO = 60, 24
"""Of one of the likeliest tokens at a place; and of a byte of an echoed prompt, for each likeliest token told."""


def requests_by_file(
    wanted: Iterable[tuple[str, Request, dict]], most: int
) -> Iterator[list[tuple[str, Request, dict]]]:
    """What is wanted in lists for one file each, of ``most`` requests at most."""
    some: list[tuple[str, Request, dict]] = []
    asked = answered = 0
    for one in wanted:
        _, request, body = one
        size = len(json.dumps(body, ensure_ascii=False).encode()) + _BYTES_OF_A_LINE
        longest = _longest_line(request)
        if some and (len(some) == most or max(asked + size, answered + longest) > MOST_BYTES):
            yield some
            some, asked, answered = [], 0, 0
        some.append(one)
        asked, answered = asked + size, answered + longest
    if some:
        yield some


def _longest_line(request: Request) -> int:
    """Bytes that the line of its answer may have."""
    echoed = at_most(request).prompt * _BYTES_OF_AN_ECHO * request.logprobs if request.echo else 0
    return (
        request.max_tokens * (_BYTES_OF_A_TOKEN + _BYTES_OF_A_LOG_PROB * request.logprobs) + echoed + _BYTES_OF_A_LINE
    )


@dataclass(frozen=True)
class Line:
    """What a batch says of one request.

    Attributes:
        answer: None where none can be used.
        took: tokens that are paid for; None where nothing is.
        why: there is no answer: for the row's own sake, the batch's end, or what the account or the server lacks.
        code: the endpoint's word for it.
    """

    answer: dict | None = None
    took: Tokens | None = None
    why: Why = ""
    code: str = ""


def read_line(line: dict, body: dict, api: Api, model: str) -> Line:
    """What a line says of the request with this body."""
    reply = line.get("response")
    reply = reply if isinstance(reply, dict) else {}
    status, payload = reply.get("status_code"), reply.get("body")
    if isinstance(payload, dict) and status == 200:
        used = tokens_of(payload.get("usage"))
        took = used if sum(used) else Tokens(len(json.dumps(body)), limit_of(body))
        try:
            return Line(answer_of(payload, api, body)[0], took)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, Fault, InputError):
            return Line(took=took, why="row", code="bad_answer")
    error = line.get("error") or (payload.get("error") if isinstance(payload, dict) else None)
    error = error if isinstance(error, dict) else {}
    code = str(error.get("code") or error.get("type") or "")
    if code == CONTENT_FILTER:
        return Line(refused_answer(model), Tokens())
    status = status if isinstance(status, int) else 0
    return Line(why=_why(status, code), code=code or str(status))


def _why(status: int, code: str) -> Why:
    """Who or what is to blame for an error."""
    if code == "batch_expired":
        return "late"
    if is_used_up(status, code):
        return "account"
    if status in (429, 529) or code.startswith("rate_limit"):
        return "busy"
    if (status >= 500 and status != 501) or code.endswith("server_error"):
        return "server"
    return "row"
