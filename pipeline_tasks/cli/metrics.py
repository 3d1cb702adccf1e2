"""``foundry metrics``: the lineage in numbers, for Prometheus."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import used_store
from pipeline_tasks.core import durable
from pipeline_tasks.core.lineage.metrics import exposition
from pipeline_tasks.core.store.disk import space_in, writable


def metrics_command(
    output: Annotated[Path | None, typer.Option(help="write this file (atomically) in place of the terminal")] = None,
) -> None:
    """What the steps did and what is in the store, in Prometheus' text format, from the lineage."""
    text = exposition(used_store())
    if output is None:
        typer.echo(text, nl=False)
        return
    fresh = output.with_name(f".{output.name}.{os.getpid()}")
    with space_in(output.parent), writable(output, "name another file"):
        fresh.write_text(text)
        durable.replace(fresh, output)
