"""``foundry gc``: drop what no kept version needs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.inspect import sized, used_store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.upkeep.gc import DAY_S, GRACE_S, HOUR_S, drop, find_garbage


def gc_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go")] = False,
    keep: Annotated[
        int | None, typer.Option(min=1, help="newest versions per dataset, and their ancestors; default: all")
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="versions younger than this, and their ancestors; default: all")
    ] = None,
    memo: Annotated[
        bool, typer.Option("--memo", help="also drop memo records that no kept version names, unless steps run")
    ] = False,
    grace_hours: Annotated[float, typer.Option(min=0, help="minimum age of what goes, in hours")] = GRACE_S / HOUR_S,
) -> None:
    """Drop what no kept version needs: parts, memo records without output, leftovers of killed runs."""
    where = used_store()
    keep_s = None if keep_days is None else keep_days * DAY_S
    sweep = find_garbage(where, keep=keep, keep_s=keep_s, memo=memo, grace_s=grace_hours * HOUR_S)
    table = Table("what", "files", "size")
    for kind, count in sweep.counts().items():
        table.add_row(kind, f"{count:,}", sized(sweep.size_bytes[kind]))
    console().print(table)
    total = sum(sweep.size_bytes.values()) if dry_run else drop(where, sweep)
    typer.echo(f"{'would drop' if dry_run else 'dropped'} {total:,} bytes")
