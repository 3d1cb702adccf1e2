"""``foundry sync``: from one store to another."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import open_store
from pipeline_tasks.core.upkeep.sync import KINDS, sync

STORE = "a folder, or s3://bucket/prefix"


def sync_command(
    source: Annotated[str, typer.Argument(metavar="FROM", help=STORE)],
    target: Annotated[str, typer.Argument(metavar="TO", help=STORE)],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET[@VERSION]]...", help="only these versions and all their ancestors"),
    ] = None,
) -> None:
    """Copy what TO lacks: checked, objects first, manifests last; stopped anywhere, it goes on next time."""
    given = open_store(source)
    if next(iter(given.keys("versions")), None) is None:
        raise InputError(f"{given} is no store: it has no versions; FROM is {STORE}")
    done = sync(given, open_store(target), names or ())
    table = Table("what", "copied", "there already")
    for kind in KINDS:
        table.add_row(kind, f"{done.copied[kind]:,}", f"{done.there[kind]:,}")
    console().print(table)
    for problem in done.problems:
        typer.echo(problem, err=True)
    if done.problems:
        raise InputError(f"{len(done.problems):,} could not be copied; everything else was")
