"""How many requests go into one file of a batch."""

from __future__ import annotations

from pipeline_tasks.core.paid.endpoint.transport import LARGEST_FILE
from pipeline_tasks.synthesis.llm.api import Request, body_of
from pipeline_tasks.synthesis.llm.batch_files import MOST, requests_by_file

ECHOED = 36_000
"""Bytes that vLLM answers with to an echo of such a prompt, with the likeliest token at each place."""


def test_no_file_of_echoes_is_larger_than_can_be_read():
    request = Request("passage " * 190, 1, echo=True, logprobs=1)
    wanted = [(f"{n}", request, body_of(request, "m", "completions")) for n in range(MOST)]
    files = [len(some) for some in requests_by_file(wanted, MOST)]
    assert sum(files) == MOST and max(files) * ECHOED < LARGEST_FILE
