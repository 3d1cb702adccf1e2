"""Log-probabilities of a text's tokens as an endpoint tells them, and those of what a prompt ends with.

Asked by ``/completions`` with ``logprobs``, and with ``echo`` where they are the prompt's own. One token is generated
besides (``max_tokens=1``): some servers take 0 for no limit.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from typing import Any

from pipeline_tasks.core.errors import InputError

REMEDY = (
    "ask one that does (vLLM), score with a model on this machine (relabel), or have it give grades (grade_passages)"
)
_SPACES = re.compile(r"[\s▁ĠĊ]+")
"""White space, also as tokenizers write it inside tokens."""
_PART_OF_A_CHARACTER = re.compile(r"�|bytes:|<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class LogProbs:
    """Tokens in their order: the prompt's where it was echoed, then the generated one.

    Attributes:
        tokens: their texts.
        log_probs: of each after all before it, in nats; NaN of the first of a prompt.
        offsets: where each begins, in characters, as the server counts them.
        top: the likeliest tokens at the last place, with their log-probabilities.
    """

    tokens: Sequence[str]
    log_probs: Sequence[float]
    offsets: Sequence[int]
    top: dict[str, float]

    @classmethod
    def of_echo(cls, kept: dict[str, Any]) -> LogProbs:
        """What :func:`kept_log_probs` has kept of an echo, packed: thousands of answers may wait for their turn."""
        numbers = array("d", [nan, *kept["log_probs"][1:]])
        return cls(tuple(map(sys.intern, kept["tokens"])), numbers, array("d", kept["offsets"]), kept["top"])


def kept_log_probs(choice: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """What of an answer's choice a :class:`LogProbs` is made of.

    Raises:
        InputError: the endpoint leaves out what ``body`` asks for.
    """
    fields = choice.get("logprobs")
    fields = fields if isinstance(fields, dict) else {}
    tokens, log_probs, offsets = (list(fields.get(name) or ()) for name in ("tokens", "token_logprobs", "text_offset"))
    top = (fields.get("top_logprobs") or [None])[-1] or {}
    are_texts = all(isinstance(token, str) for token in tokens)
    of_prompt = are_texts and len(tokens) > 2 and len(tokens) == len(log_probs)  # one token is generated besides
    if not body.get("echo"):
        if not isinstance(top, dict) or not top or not _are_numbers(top.values()):
            raise _left_out(body, "the likeliest tokens (top_logprobs)")
    elif not of_prompt or not _are_numbers(log_probs[1:]):
        raise _left_out(body, "log-probabilities of a prompt (echo)")
    elif len(offsets) != len(tokens) or not _are_numbers(offsets) or offsets != sorted(offsets) or offsets[-1] <= 0:
        raise _left_out(body, "where tokens begin (text_offset)")
    return {"tokens": tokens, "log_probs": log_probs, "offsets": offsets, "top": top}


def behind(echo: LogProbs, end: str) -> list[tuple[str, float]] | None:
    """The tokens of ``end``, with which the echoed prompt ends, and their log-probabilities.

    Their place is counted from the prompt's own end, by ``offsets``: some servers count a first special token too.
    Where offsets are of tokens without their spaces, texts alone tell the place.

    Returns:
        None where no token begins where ``end`` does.
    """
    n = len(echo.tokens)
    places = ((n - 1, echo.offsets[-1]), (n, echo.offsets[-1] + len(echo.tokens[-1])))
    for last, ends in places:  # with and without a token that was generated
        start = _by_offset(echo, end, last, ends)
        start = _by_text(echo, end, last) if start is None else start
        if start is not None:
            pairs = zip(echo.tokens[start:last], echo.log_probs[start:last], strict=True)
            return [(token, found) for token, found in pairs if not isnan(found)]
    return None


def _by_offset(echo: LogProbs, end: str, last: int, ends: int) -> int | None:
    start = bisect_left(echo.offsets, ends - len(end), hi=last)
    said = "".join(echo.tokens[start:last])
    exact = start < last and echo.offsets[start] == ends - len(end)
    parts = exact and _PART_OF_A_CHARACTER.search(said)
    return start if parts or (exact and _squeezed(said) == _squeezed(end)) else None


def _by_text(echo: LogProbs, end: str, last: int) -> int | None:
    wanted, start, said = _squeezed(end), last, ""
    while start and (len(said) < len(wanted) or not _squeezed(echo.tokens[start - 1])):
        start -= 1
        said = _squeezed(echo.tokens[start]) + said
    return start if said == wanted else None


def _squeezed(text: str) -> str:
    return _SPACES.sub("", text)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and isfinite(value) for value in values)


def _left_out(body: dict[str, Any], what: str) -> InputError:
    return InputError(f"the endpoint leaves out {what} of {body['model']!r}: {REMEDY}")
