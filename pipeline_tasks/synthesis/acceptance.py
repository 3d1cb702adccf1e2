"""Tells an endpoint that refuses some prompts from one that is set up wrongly and refuses everything."""

from __future__ import annotations

from pipeline_tasks.core.endpoint import Refused, Unanswered
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.synthesis.llm_client import LLMClient, Request, Response
from pipeline_tasks.synthesis.log_probs import REMEDY

FIRST_REFUSED = 20
"""So many refusals without an answer are no accident of these prompts."""


class Acceptance:
    """Refusals count as the prompts' own fault only once the endpoint is known to accept something.

    An answer bought now shows that. Without one, a short prompt on the same terms does: at the end, or after
    ``FIRST_REFUSED`` refusals where there is no earlier answer either.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client
        self._known = self._reused = False
        self._refusals = 0
        self._refused: Request | None = None

    def note(self, request: Request, outcome: Response | Unanswered) -> None:
        """Learn from one outcome.

        Raises:
            InputError: nothing is accepted.
        """
        if isinstance(outcome, Response):
            self._known |= not outcome.cached
            self._reused |= outcome.cached
        elif isinstance(outcome, Refused):
            self._refusals += 1
            self._refused = request
            if self._refusals == FIRST_REFUSED and not self._reused:
                self.conclude()

    def conclude(self) -> None:
        """Make sure that rows may be refused.

        Raises:
            InputError: nothing is accepted.
        """
        if self._known or self._refused is None:
            return
        try:
            self._client.check(self._refused)
        except Refused as refused:
            raise self._misconfigured("even a short prompt", refused) from None
        self._known = True

    def _misconfigured(self, what: str, refused: Refused) -> InputError:
        client, asked = self._client, self._refused
        remedy = "correct llm, api, json_schema or the endpoint"
        if asked and asked.fields:
            remedy += ", or leave the form of the answer to the prompt (--set json_schema=false)"
        elif asked and asked.logprobs:
            remedy = f"if it tells no log-probabilities of what it is asked: {REMEDY}"
        return InputError(
            f"{client.endpoint.host} refuses {what} for {client.model!r} and answered none: {refused.detail}; {remedy} "
            "(no row was refused for it)"
        )
