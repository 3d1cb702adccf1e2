"""Files of batches: which requests go into one file, and what a line of an ended batch says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pipeline_tasks.synthesis.llm.api import Request, at_most

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
