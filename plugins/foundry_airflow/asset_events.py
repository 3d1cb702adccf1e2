"""Events of assets, which carry the version that was made in their ``extra``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context
from pydantic import JsonValue

from pipeline_tasks.core.manifest import Ref


def announce(context: Context, outlets: Iterable[Any], ref: Ref) -> None:
    """Emit the asset event of each outlet, with the version in ``extra``."""
    extra: dict[str, JsonValue] = {"version": str(ref)}
    for outlet in outlets:
        event = context["outlet_events"][outlet]
        if isinstance(outlet, AssetAlias):
            event.add(Asset(ref.dataset), extra=extra)
        else:
            event.extra = extra


def started_by(context: Context) -> dict[str, str]:
    """Dataset -> version of the newest of its asset events that started the run; events may have queued up."""
    found = (event for events in (context["triggering_asset_events"] or {}).values() for event in events)
    versions = ((event.extra or {}).get("version") for event in sorted(found, key=lambda event: event.timestamp))
    return {Ref.parse(version).dataset: version for version in versions if isinstance(version, str)}
