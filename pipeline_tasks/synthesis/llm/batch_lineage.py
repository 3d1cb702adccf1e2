"""What a round of batches paid, told to the lineage as a run of the step that made nothing."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.store import Store


def tell_lineage(store: Store, job: Job, counters: Mapping[str, float]) -> None:
    """The view ``work`` gives the run to the next version that the same request makes.

    Its start and end are written together: answers take a day, and no run goes on meanwhile.
    """
    events = EventLog(store, job.step.name, job.step.version)
    facts = job.facts
    events.emit("START", inputs=job.input_names, output=None, facts=facts)
    events.emit("COMPLETE", inputs=job.input_names, output=None, facts=facts | {"counters": dict(counters)})
