"""A stand-in for an LLM that scores passages: log-probabilities with ``echo``, and grades, each by its prompt alone."""

from __future__ import annotations

import json
import re
import zlib
from itertools import accumulate
from typing import Any

from benchmarks.faulty_llm import FaultyLLM

DRAWN = ("http_500", "cut", "schema") * 6 + ("http_429", "hang")
"""Kinds of faults that pass. A 429 halves what may be open and a hang holds a place until it times out: as many of them
as of the others would be all that 40,000 requests wait for."""
REFUSED = 0.0005
"""Share of prompts that are refused whenever they come: of 40 requests about a query one takes its query with it."""
UNLIKELY = 0.01
"""Share of prompts behind which a grade is not among the likeliest tokens, so that it is asked for by itself."""
BROKEN = 0.03
"""Share of lists of grades that are half a JSON object."""
_TOKEN = re.compile(r"\s*\S{1,5}")
"""About as long as a tokenizer's pieces of English."""
_STEPS, _NATS = 1 << 16, 12.0


class ScoringLLM(FaultyLLM):
    """Answers of a running checksum over the prompt's pieces, so that two runs can be compared bit by bit.

    Args:
        share: of requests that meet a fault which passes.
        calm: no fault passes; what is refused whenever it comes is refused all the same.
        more: as for :class:`FaultyLLM`.

    Attributes:
        sent: answers, also those that are on the bill already.
    """

    def __init__(self, share: float, *, calm: bool = False, **more: Any) -> None:
        super().__init__(share, DRAWN, **more)
        self.calm, self.sent = calm, 0

    def bill(self, key: str, usage: dict[str, int]) -> None:
        """As for any stand-in; counts what is sent, billed or not."""
        super().bill(key, usage)
        with self._lock:
            self.sent += 1

    def draw(self, key: str, attempt: int) -> str:
        """The fault of a try."""
        from pipeline_tasks.core.ids import unit_hash
        from pipeline_tasks.synthesis.llm.client import CHECK

        if not key.startswith(CHECK) and unit_hash("refused", key) < REFUSED:
            return "http_400"
        return "" if self.calm else super().draw(key, attempt)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        """The prompt and its answer."""
        if path.endswith("/chat/completions"):
            prompt = json.dumps(body["messages"])
            choice = {"message": {"content": graded(prompt, body["messages"])}, "finish_reason": "stop"}
            n_prompt, n_completion = len(prompt) // 4, 40
        else:
            prompt, choice, n_prompt, n_completion = body["prompt"], *make_choice(body)
        usage = {"prompt_tokens": n_prompt, "completion_tokens": n_completion}
        return prompt, {"model": body["model"], "created": 1_700_000_000, "choices": [choice], "usage": usage}


def make_choice(body: dict[str, Any]) -> tuple[dict[str, Any], int, int]:
    """A choice as vLLM makes it, the prompt's tokens, and those generated."""
    from pipeline_tasks.curation.relevance_prompts import GRADES

    prompt = body["prompt"]
    tokens = _TOKEN.findall(prompt)
    sums = list(
        accumulate((token.encode() for token in tokens), lambda sum_, token: zlib.crc32(token, sum_), initial=0)
    )
    last = sums[-1]
    names = [*GRADES, *(f" w{n}" for n in range(max(0, body["logprobs"] - len(GRADES))))]
    if last % 10_000 < UNLIKELY * 10_000:
        names.remove(GRADES[last % len(GRADES)])
    top = {name: _log_prob(zlib.crc32(name.encode(), last)) for name in names[: body["logprobs"]]}
    likeliest = max(top, key=lambda name: top[name])
    of_tokens = [None, *map(_log_prob, sums[2:])]
    starts = [0, *accumulate(map(len, tokens))]
    if not body.get("echo"):
        tokens, of_tokens, starts = [], [], [len(prompt)]
    found = {
        "tokens": [*tokens, likeliest],
        "token_logprobs": [*of_tokens, top[likeliest]],
        "text_offset": starts,
        "top_logprobs": [*([None] * len(tokens)), top],
    }
    text = (prompt if body.get("echo") else "") + likeliest
    return {"index": 0, "text": text, "finish_reason": "length", "logprobs": found}, len(sums) - 1, 1


def graded(said: str, messages: list[dict[str, str]]) -> str:
    """Grades of the passages that the first request of a conversation shows; some are half an object."""
    from pipeline_tasks.core.ids import unit_hash

    passages = json.loads(next(one["content"] for one in messages if one["role"] == "user"))["passages"]
    text = json.dumps({"grades": " ".join(str(zlib.crc32(one["passage"].encode()) % 4) for one in passages)})
    return text[: len(text) // 2] if unit_hash("broken", said) < BROKEN else text


def _log_prob(sum_: int) -> float:
    return -(sum_ % _STEPS) * _NATS / _STEPS
