"""Levels as asset partitions: one run builds one partition, its key is the level. All that touches that young API."""

from __future__ import annotations

import re
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context, PartitionedAtRuntime, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from foundry_airflow.forms import LEVEL
from foundry_airflow.operators import nothing_outlined
from foundry_airflow.steps import as_asked
from pipeline_tasks.core.manifest import Ref

RUN_KEY = "{{ dag_run.partition_key or params.alpha }}"
"""The level of a run: its partition key, by REST ``"partition_key": "0.85"``; else its parameter ``alpha``."""


def keyed() -> PartitionedAtRuntime:
    """The schedule of a DAG whose runs are started by hand or by REST, each with a partition key."""
    return PartitionedAtRuntime()


def level_asked(context: Context) -> None:
    """As :func:`foundry_airflow.steps.as_asked`; fail a task, too, whose run has a key that is spelled like no level.

    What is announced under another spelling than the dataset's reaches nobody who waits for the level.
    """
    as_asked(context)
    key = context["dag_run"].partition_key
    if key is not None and not re.fullmatch(LEVEL["pattern"], key):
        raise AirflowFailException(
            f"the partition key {key!r} is no level: start a run with one above 0 that is spelled as the dataset is, "
            "such as 0.65 or 1.0"
        )


class PartitionOperator(BaseOperator):
    """Emits the event of one partition of an asset, for DAGs that wait for some keys of it.

    Args:
        asset: the partitioned asset.
        key: the partition.
        version: what was made, ``dataset@version``; more than one where several tasks made it.
    """

    template_fields = ("key", "version")
    ui_color = "#f4efe6"
    outlined = staticmethod(nothing_outlined)

    def __init__(self, *, asset: Asset, key: str, version: Any, **kwargs: Any) -> None:
        super().__init__(**{"trigger_rule": TriggerRule.NONE_FAILED, "outlets": [asset]} | kwargs)
        self.asset, self.key, self.version = asset, key, version

    def execute(self, context: Context) -> str:
        """Announce the version under its key."""
        event = context["outlet_events"][self.asset]
        event.extra = {"version": str(Ref.parse(self.version))}
        event.add_partitions(self.key)
        return self.key
