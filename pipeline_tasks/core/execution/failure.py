"""What the lineage is told of a run that failed: the error, what it had counted, and how to go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeline_tasks.core.paid.spending import Limit, LimitReached
from pipeline_tasks.core.plan import Job

_LONGEST_ERROR = 2000


@contextmanager
def counted(counters: Counter[str]) -> Iterator[None]:
    """What was counted when the block fails travels with its error, also out of a worker process."""
    try:
        yield
    except BaseException as error:
        getattr(error, "__dict__", {})["counters"] = _counters(error) + counters
        raise


def _counters(error: BaseException) -> Counter[str]:
    return getattr(error, "__dict__", {}).get("counters", Counter())


def facts_of(job: Job, error: BaseException) -> dict[str, Any]:
    """What the event of a failed run says; an error about a limit learns the command that goes on."""
    if isinstance(error, LimitReached) and error.limit:
        error.args = (f"{error}; what was answered is kept, to go on: {_with_more(job, error.limit)}",)
    return {"error": f"{type(error).__name__}: {error}"[:_LONGEST_ERROR], "counters": dict(_counters(error))}


def _with_more(job: Job, limit: Limit) -> str:
    """The command that goes on where the run stopped at ``limit``, with twice as much."""
    more = f"{2 * limit.most or 1:g}"
    is_parameter = limit.name in type(job.params).model_fields
    return job.command(**{limit.name: more}) if is_parameter else f"{limit.name}={more} {job.command()}"
