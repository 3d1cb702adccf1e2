"""``foundry report``: how good a model is, whether that is luck, and what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import store
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.report.markdown import markdown
from pipeline_tasks.report.page import LINEAGE
from pipeline_tasks.report.write import report_of, write_report


def report_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[DATASET[@VERSION]]", help="eval/… or model/…; none: what was evaluated last"),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="every version that was evaluated, over time")] = False,
    in_markdown: Annotated[bool, typer.Option("--markdown", help="print it as Markdown for a pull request")] = False,
    target: Annotated[Path, typer.Option("--to", metavar="FILE", help="page to write; Markdown if .md")] = Path(
        "report.html"
    ),
    lineage: Annotated[str, typer.Option(metavar="URL", help="lineage page that versions link to")] = LINEAGE,
) -> None:
    """Write one self-contained HTML page: scores, confidence intervals, significance, queries, yield, curves, cost."""
    if name and everything:
        raise InputError(f"--all is about every version: leave out {name}, or leave out --all")
    if in_markdown:
        typer.echo(markdown(report_of(store(), name, everything)), nl=False)
        return
    write_report(store(), target, name, everything=everything, lineage=lineage)
    typer.echo(target)
