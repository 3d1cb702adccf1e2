"""How many requests go into one file of a batch, and what a line of its answers says."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.paid.endpoint.transport import LARGEST_FILE
from pipeline_tasks.synthesis.llm.api import Request, body_of
from pipeline_tasks.synthesis.llm.batch_files import MOST, read_line, requests_by_file

ECHOED = 36_000
"""Bytes that vLLM answers with to an echo of such a prompt, with the likeliest token at each place."""


def test_no_file_of_echoes_is_larger_than_can_be_read():
    request = Request("passage " * 190, 1, echo=True, logprobs=1)
    wanted = [(f"{n}", request, body_of(request, "m", "completions")) for n in range(MOST)]
    files = [len(some) for some in requests_by_file(wanted, MOST)]
    assert sum(files) == MOST and max(files) * ECHOED < LARGEST_FILE


@pytest.mark.parametrize(
    ("status", "error", "why"),
    [
        (402, {}, "account"),
        (429, {"code": None, "type": "insufficient_quota"}, "account"),
        (429, {"code": "rate_limit_exceeded"}, "busy"),
        (500, {"message": "oops"}, "server"),
        (501, {}, "row"),
        (400, {"code": "invalid_prompt"}, "row"),
        (None, {"code": "server_error"}, "server"),
        (None, {"code": "batch_expired"}, "late"),
        (None, "oops", "row"),
    ],
)
def test_who_is_to_blame_for_an_error_is_told_by_its_status_or_code(status, error, why):
    reply = {"status_code": status, "body": {"error": error}}
    line = {"custom_id": "a"} | ({"response": reply} if status else {"response": None, "error": error})
    found = read_line(line, {}, "chat", "m")
    assert (found.answer, found.took, found.why) == (None, None, why)
