"""``foundry compact``: many small parts of a bucket in a few large objects."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import sized, used_store
from pipeline_tasks.core.upkeep.compact import compact, find_scattered
from pipeline_tasks.core.upkeep.gc import GRACE_S, HOUR_S


def compact_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be put together")] = False,
    grace_hours: Annotated[float, typer.Option(min=0, help="minimum age of what is packed, in hours")] = GRACE_S
    / HOUR_S,
) -> None:
    """Put the small parts of a bucket into packs of 64 MiB; versions, memo and lineage stay as they are."""
    where = used_store()
    if where.packs is None:
        typer.echo(f"{where} is a folder: its parts are read where they lie, and there is nothing to put together")
        return
    found = find_scattered(where, grace_s=grace_hours * HOUR_S)
    if not dry_run:
        compact(where, found)
    size = sized(sum(entry.size_bytes for entry in found.objects))
    done = "would be" if dry_run else "are"
    typer.echo(f"{len(found.objects):,} parts, {size}, {done} in {len(found.groups):,} packs")
