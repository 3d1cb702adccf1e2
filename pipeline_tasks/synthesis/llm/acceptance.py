"""Tells an endpoint that refuses some prompts from one that refuses everything: set up wrongly, or no longer paid."""

from __future__ import annotations

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import Refused, Unanswered
from pipeline_tasks.synthesis.llm.client import LLMClient, Request, Response
from pipeline_tasks.synthesis.llm.log_probs import REMEDY

FIRST_REFUSED = 20
"""So many refusals in a row are no accident of these prompts."""


class Acceptance:
    """Refusals count as the prompts' own fault only once the endpoint is known to accept something after them.

    A short prompt on the same terms shows that: at the end, and after ``FIRST_REFUSED`` refusals in a row. An answer to
    a later prompt does not, since it may have come before: an account may run dry in the middle of a part.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client
        self._in_a_row = 0
        self._refused: Request | None = None

    def note(self, request: Request, outcome: Response | Unanswered) -> None:
        """Learn from one outcome.

        Raises:
            InputError: nothing is accepted.
        """
        if isinstance(outcome, Response):
            self._in_a_row = 0
        elif isinstance(outcome, Refused):
            self._in_a_row += 1
            self._refused = request
            if self._in_a_row == FIRST_REFUSED:
                self.conclude()

    def conclude(self) -> None:
        """Make sure that rows may be refused.

        Raises:
            InputError: nothing is accepted.
        """
        if self._refused is None:
            return
        try:
            self._client.check(self._refused)
        except Refused as refused:
            raise self._misconfigured(self._refused, refused) from None
        self._refused = None

    def _misconfigured(self, asked: Request, refused: Refused) -> InputError:
        client = self._client
        remedy = "see to the account there, or correct OPENAI_API_KEY, llm, api, json_schema or the endpoint"
        if asked.fields:
            remedy += ", or leave the form of the answer to the prompt (--set json_schema=false)"
        elif asked.logprobs:
            remedy = f"if it tells no log-probabilities of what it is asked: {REMEDY}"
        return InputError(
            f"{client.endpoint.host} refuses even a short prompt for {client.model!r}: {refused.detail}; {remedy} "
            "(no row was refused for it)"
        )
