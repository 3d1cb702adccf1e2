"""Another try for what may work later."""

from __future__ import annotations

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from pipeline_tasks.corpus.fetching.outcomes import Busy


def retrying(attempts: int) -> AsyncRetrying:
    """Calls a coroutine function up to ``attempts`` times while it raises :class:`Busy`, less and less often."""
    return AsyncRetrying(
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=0.25, max=30),
        retry=retry_if_exception_type(Busy),
        reraise=True,
    )
