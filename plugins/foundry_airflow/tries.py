"""Which tries count: a step that goes on from what it had may be ended any number of times while it comes further.

Airflow counts tries and knows nothing of checkpoints. So a try that may be repeated is repeated here, within Airflow's,
when the work has come further since it began. One that came no further is left to Airflow to count.
"""

from __future__ import annotations

import logging
from time import sleep

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from foundry_airflow.backends import checked
from foundry_airflow.calls import Ended
from pipeline_tasks.core.headway import headway
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.store import Store

RETRY_DELAY_S = 30
log = logging.getLogger(__name__)


def so_far(store: Store, job: Job, group: str) -> str | None:
    """How far the work has come before a try; None where a try begins from nothing."""
    if not job.step.resources.resumes:
        return None
    i, slash, n = group.partition("/")
    return headway(store, job, (int(i), int(n)) if slash else None)


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
        sleep(conf.getfloat("foundry", "retry_delay_s", fallback=RETRY_DELAY_S))
        return True
    return False
