"""The operators that keep a store small and quick to read: ``foundry gc``, ``compact`` and ``sync`` as tasks."""

from __future__ import annotations

import logging
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator, Context, XComArg

from foundry_airflow.operators import airflow_errors, nothing_outlined, open_store
from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.upkeep.compact import compact, find_scattered
from pipeline_tasks.core.upkeep.gc import DAY_S, drop, find_garbage

log = logging.getLogger(__name__)


class GarbageOperator(BaseOperator):
    """Says what no kept version needs, and drops it where asked; answers that were paid for are never dropped.

    Args:
        keep: newest versions per dataset that stay; None: all.
        keep_days: versions younger than this stay; None: all.
        really: drop it; otherwise only say so.
    """

    template_fields = ("keep", "keep_days", "really")
    ui_color = "#f4efe6"
    outlined = staticmethod(nothing_outlined)

    def __init__(self, *, keep: Any = None, keep_days: Any = None, really: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep, self.keep_days, self.really = keep, keep_days, really

    def execute(self, context: Context) -> dict[str, int]:
        """Bytes by kind."""
        with airflow_errors():
            keep_s = None if self.keep_days is None else self.keep_days * DAY_S
            store = open_store()
            sweep = find_garbage(store, keep=self.keep, keep_s=keep_s)
            for kind, count in sweep.counts().items():
                log.info("%s: %d, %d bytes", kind, count, sweep.size_bytes[kind])
            if self.really:
                drop(store, sweep)
            else:
                log.info("nothing was dropped; the parameter `really` does it")
        return sweep.size_bytes


def collect_garbage(**values: Any) -> XComArg:
    """The task ``gc``."""
    return GarbageOperator(task_id="gc", **values).output


class CompactOperator(BaseOperator):
    """Says how many small parts of a bucket packs would hold, and puts them there where asked.

    Args:
        really: do it; otherwise only say so.
    """

    template_fields = ("really",)
    ui_color = "#f4efe6"
    outlined = staticmethod(nothing_outlined)

    def __init__(self, *, really: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.really = really

    def execute(self, context: Context) -> dict[str, int]:
        """How many parts and packs."""
        with airflow_errors():
            store = open_store()
            found = find_scattered(store)
            counts = {"parts": len(found.objects), "packs": len(found.groups)}
            log.info("%(parts)d small parts for %(packs)d packs", counts)
            if self.really:
                compact(store, found)
            elif found.groups:
                log.info("nothing was put together; the parameter `really` does it")
        return counts


def put_together(**values: Any) -> XComArg:
    """The task ``compact``."""
    return CompactOperator(task_id="compact", **values).output


class FoldOperator(BaseOperator):
    """Folds the lineage events of the run into the lineage database."""

    ui_color = "#f4efe6"
    outlined = staticmethod(nothing_outlined)

    def execute(self, context: Context) -> None:
        """Fold; costs seconds, not a process, and no rows of a bucket: who asks for them brings them."""
        with airflow_errors():
            fold(open_store(), rows=False)


class OutcomeOperator(EmptyOperator):
    """Does nothing, on no worker: what becomes of it is what a run counts as."""

    outlined = staticmethod(nothing_outlined)
