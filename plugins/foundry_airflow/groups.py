"""Which groups of parts of a map step there are to compute: one mapped task each."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from foundry_airflow.operators import PlannedOperator, airflow_errors, nothing_outlined
from pipeline_tasks.core.engines import engine_name
from pipeline_tasks.core.execution import memo
from pipeline_tasks.core.store import open_store


class GroupsOperator(PlannedOperator):
    """Lists the groups of parts of a map step that still have work, ``["0/4", "1/4", …]``.

    The list is empty where the version is there, or where one run may as well do all that is missing: little is, or a
    cluster computes the parts, which spreads them over all that is free by itself.

    Args:
        max_groups: at most so many.
    """

    outlined = staticmethod(nothing_outlined)

    def __init__(self, *, max_groups: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_groups = max_groups

    def execute(self, context: Context) -> list[str]:
        """Look into the memo, part by part."""
        with airflow_errors():
            store = open_store()
            job = self.job(store)
            if job.made(store) or engine_name(job.step, job.params) == "ray":
                return []
            missing = memo.missing(store, job)
        n = min(self.max_groups, len(missing))
        groups = sorted({index % n for index in missing}) if n else []
        return [f"{group}/{n}" for group in groups] if len(groups) > 1 else []
