"""``foundry check``: whether the store still holds what it says."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.inspect import used_store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.upkeep.check import Damage, drop_damage, find_damage


def check_command(
    quick: Annotated[bool, typer.Option("--quick", help="compare sizes only, read nothing")] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="drop what is damaged and the versions of it; only when no step runs")
    ] = False,
) -> None:
    """Compare every part with its sha256; exit code 2 where one is damaged or missing, with the versions of it."""
    where = used_store()
    damage = find_damage(where, quick=quick)
    if not damage.objects:
        typer.echo(f"all {damage.checked:,} objects are whole")
        return
    table = Table("damaged or missing", "what is wrong")
    for key, wrong in damage.objects.items():
        table.add_row(key, wrong)
    console().print(table)
    table = Table("version that needs it", "step that makes it")
    for manifest in damage.versions:
        table.add_row(str(manifest.ref), manifest.step)
    console().print(table)
    if not drop:
        summary, again = _summary(damage, damage.checked)
        raise InputError(
            f"{summary}, are lost; copy these objects over from a backup, or `foundry check --drop` and then {again}"
        )
    summary, again = _summary(drop_damage(where, damage, quick=quick), damage.checked)
    typer.echo(f"dropped {summary}; {again}")


def _summary(damage: Damage, checked: int) -> tuple[str, str]:
    """What is damaged, and what is to be done once it is dropped."""
    again = f"run again, in this order: {', '.join(damage.steps)}" if damage.steps else "nothing has to run again"
    return f"{len(damage.objects):,} of {checked:,} objects, and {len(damage.versions):,} versions of them", again
