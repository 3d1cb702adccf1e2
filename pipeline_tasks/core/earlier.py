"""What a step made last time: a hint that saves work and never changes what is made."""

from __future__ import annotations

from pipeline_tasks.core.step import Step, StepParams
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, resolve_name, whole


def earlier(store: Store, step: Step, params: StepParams) -> Version | None:
    """The latest version of what ``step`` writes, if the same code version and parameters made it, as it was made.

    One that has lost a part, or rows to an erasure, says nothing of what was found.

    It is no input: it does not enter the version id, so a body that uses it must come to the same result without it,
    as with the memo of a map step. Its manifest names the versions it was made from; parts that they share with the
    inputs of today hold the same rows.
    """
    ref = resolve_name(store, step.output(params))
    made = whole(store, ref) if ref else None
    if made is None or made.erased:
        return None
    same = (made.step, made.code_version, made.params) == (step.name, step.version, params.identity())
    return Version(store, made, step.writes) if same else None
