"""``foundry point``: which version a name means."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import store
from pipeline_tasks.core.manifest import LATEST, Ref
from pipeline_tasks.core.pointing import move


def point_command(
    version: Annotated[str, typer.Argument(metavar="DATASET@VERSION", help="`foundry ls DATASET` lists them")],
    name: Annotated[str, typer.Argument(help="name to point at it")] = LATEST,
    ancestors: Annotated[
        bool, typer.Option("--ancestors", help="also in every dataset that it was made from, at the version used")
    ] = False,
) -> None:
    """Point a name such as latest at a version: a rollback, or a tag. The last line printed is the version."""
    for moved in move(store(), Ref.parse(version), name, ancestors=ancestors):
        was = "so it was" if moved.before == moved.ref.version else f"was {moved.before or 'not there'}"
        typer.echo(f"{moved.ref.dataset}@{name} is {moved.ref.version} ({was})", err=True)
    typer.echo(str(moved.ref))
