"""``foundry domain``: begin a domain of your own, and see what it still lacks."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from pipeline_tasks.cli.domain_check import check_domain
from pipeline_tasks.cli.domain_skeleton import write_skeleton
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paths import absolute_path
from pipeline_tasks.domains import domain_folder, folder_of

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="A domain: a folder with intents, prompts, searches, questions, a sample.",
)


@app.command("new")
def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="folder to write, here unless it is a path")],
    intent: Annotated[
        list[str] | None, typer.Option(help="a search intent: what searchers want; repeat it for several")
    ] = None,
) -> None:
    """Write the files of a domain, each with what it is for and with empty values for you to fill in."""
    folder = absolute_path(name)
    write_skeleton(folder, intent or ["question"])
    typer.echo(f"{folder}: fill in its files; README.md says what each is for")
    typer.echo(f"foundry domain check {shlex.quote(str(folder))}     # what is missing")
    typer.echo(f"export FOUNDRY_DOMAIN={shlex.quote(str(folder))}")


@app.command("check")
def check_command(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="folder, or a domain's name; else the configured one")
    ] = "",
) -> None:
    """Say what a domain has, what it does without, and what is missing or wrong; exit code 2 where something is."""
    here = absolute_path(path)
    folder = folder_of(str(here) if here.is_dir() else path) if path else domain_folder()
    found = check_domain(folder)
    for note in found.notes:
        typer.echo(f"note: {note}")
    for error in found.errors:
        typer.echo(f"error: {error}")
    if found.errors:
        raise InputError(f"{folder}: {len(found.errors)} of its files or lines are missing or wrong; mend them")
    typer.echo(f"{folder}: {', '.join(found.counts)}; nothing is missing or wrong")
