"""Which tries count: a step that goes on from what it had may be ended any number of times while it comes further.

Airflow counts tries and knows nothing of checkpoints. So a try that may be repeated is repeated here, within Airflow's,
when the work has come further since it began. One that came no further is left to Airflow to count.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from time import sleep

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from foundry_airflow.backends import checked
from foundry_airflow.calls import Call, Ended
from pipeline_tasks.core.execution.headway import headway
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.store import Store

log = logging.getLogger(__name__)


def retry_delay_s() -> float:
    """Seconds before another try."""
    return conf.getfloat("foundry", "retry_delay_s", fallback=30.0)


def so_far(store: Store, job: Job, group: str) -> str | None:
    """How far the work has come before a try; None where a try begins from nothing."""
    if not job.step.resources.resumes:
        return None
    i, slash, n = group.partition("/")
    return headway(store, job, (int(i), int(n)) if slash else None)


def again(store: Store, job: Job, call: Call, ended: Ended, before: str | None) -> Call | None:
    """What is to run now within the same try of Airflow's: ``call`` with more memory, once; as it was; or nothing."""
    needs = call.resources
    if ended.out_of_memory and needs.more_memory_gib is not None and not has_more(call):
        log.warning(
            "%s was out of memory with %g GiB; once more with %g GiB",
            call.step,
            needs.memory_gib,
            needs.more_memory_gib,
        )
        return with_more(call)
    return call if goes_on(store, job, call.group, ended, before) else None


def has_more(call: Call) -> bool:
    """Whether ``call`` has the memory of a second run."""
    return call.resources.memory_gib == call.resources.more_memory_gib


def with_more(call: Call) -> Call:
    """``call`` with the memory of a second run; as it is where none is declared."""
    more = call.resources.more_memory_gib
    return call if more is None else replace(call, resources=replace(call.resources, memory_gib=more))


def told_of_both(name: str, ended: Ended) -> Ended:
    """``ended``, saying after which two sizes, where the step ``name`` was out of memory with the second one, too."""
    needs = resources_of(get_step(name))
    if not ended.out_of_memory or needs.more_memory_gib is None:
        return ended
    both = f"{needs.memory_gib:g} GiB and then {needs.more_memory_gib:g} GiB were too little"
    return replace(ended, why=f"{ended.why}, or more_memory_gib of [{name}] in FOUNDRY_RESOURCES: {both}")


def goes_on(store: Store, job: Job, group: str, ended: Ended, before: str | None) -> bool:
    """Whether a try that did not end well is to be repeated without being counted; waits for a moment if so."""
    try:
        checked(job.step.name, ended)
    except AirflowFailException:
        return False
    except AirflowException as error:
        if before is None or so_far(store, job, group) == before:
            return False
        log.warning("%s; the work had come further, so it goes on, and this try does not count", error)
        sleep(retry_delay_s())
        return True
    return False
