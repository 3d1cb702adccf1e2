"""``foundry lock``: what a change of code means for what was made before."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline_tasks.core.codelock.lock import current, read, unsettled, write
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step


def lock_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[STEP]…", help="steps whose output is the same as before the change")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="the output of every step is the same as before")] = False,
) -> None:
    """Record the code of all steps in steps.lock; exit code 2 where it changed without a raised version=."""
    same = {get_step(name).name for name in names or ()}
    now, reached = current()
    if not everything:
        left = [change for change in unsettled(read(), now, reached) if change.step not in same]
        if left:
            raise InputError("\n".join(["nothing was recorded", *map(str, left)]))
    write(now)
    typer.echo(f"recorded {len(now.versions)} steps, {len(now.items)} files, scripts and schemas that they reach")
