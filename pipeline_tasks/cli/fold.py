"""``foundry fold``: bring the lineage database up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import store
from pipeline_tasks.core.lineage import fold, unfold


def fold_command(
    anew: Annotated[bool, typer.Option("--anew", help="rebuild it from the store's files alone")] = False,
) -> None:
    """Bring the lineage database up to date; the last line printed is its path."""
    there = store()
    if anew:
        unfold(there)
    typer.echo(str(fold(there, rows=False)))
