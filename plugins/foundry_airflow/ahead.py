"""Answers of an LLM bought ahead of the step that asks for them: by the file, at half the price, within a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Context, Param
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException

from foundry_airflow.backends import checked
from foundry_airflow.calls import Call, Ended, call_of
from foundry_airflow.operators import SKIPS, StepOperator, nothing_outlined
from pipeline_tasks.core.errors import EXIT_RETRY, OPEN
from pipeline_tasks.core.plan import Job

AHEAD = "ahead"


def batch_field(section: str) -> dict[str, Param]:
    """The field ``batch`` of a form: what :func:`foundry_airflow.steps.step` takes as ``ahead``."""
    description = "buy the answers by the endpoint's batch API first: half the price, within a day (off: ask at once)"
    usual = conf.getboolean("foundry", "batch", fallback=False)
    return {"batch": Param(usual, type="boolean", section=section, description=description)}


class AheadOperator(StepOperator):
    """Buys what a step will ask an LLM, and makes nothing; deferred while batches are on their way.

    Each look is a ``foundry batch`` on the back-end. What was bought is stored, and so is what is on its way: a task
    that was killed, cleared or tried again goes on with the batches that were begun. Where the endpoint cannot be
    reached the task fails, and is tried again as often as any other.

    Args:
        wanted: a template or parameter; the task is skipped where it comes out empty or false.
    """

    template_fields = (*StepOperator.template_fields, "wanted")
    outlined = staticmethod(nothing_outlined)

    def __init__(self, *, wanted: Any, **kwargs: Any) -> None:
        super().__init__(group=AHEAD, **kwargs)
        self.wanted = wanted

    @property
    def map_label(self) -> str:
        """Not mapped."""
        return ""

    def execute(self, context: Context) -> str:
        """Look, and sleep until the next look where answers are on their way."""
        if self.wanted in SKIPS:
            raise AirflowSkipException(f"{self.step} asks at once: the field batch is off")
        return self._find_or_make(context)

    def look_again(self, context: Context, event: Any) -> str:
        """Go on after a sleep, which ``event`` ended."""
        return self._find_or_make(context)

    def _call(self, job: Job) -> Call:
        return call_of(job, self._arguments(job, "batch"), AHEAD)

    def _result(self, ended: Ended, job: Job | None = None) -> str:
        if ended.exit_code == EXIT_RETRY and not ended.why and ended.last_line.startswith(f"{OPEN} "):
            seconds = conf.getfloat("foundry", "batch_poll_s", fallback=300.0)
            self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=seconds)), method_name="look_again")
        return checked(self.step, ended)
