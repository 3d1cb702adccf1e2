"""``foundry agreement``: whether a check of tuples keeps what a person would keep."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline_tasks.cli.inspect import clipped, store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.versions import resolve
from pipeline_tasks.evaluation.kappa import Agreement, agreement
from pipeline_tasks.synthesis.labelled_tuples import drawn, matched, read_labels, verdicts, write_sample

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Agreement of a check of tuples with a person's labels.",
)
FILE = Annotated[Path, typer.Argument(metavar="FILE", help="JSONL, or CSV where its name ends in .csv")]
OF = Annotated[str, typer.Option("--of", metavar="DATASET[@VERSION]", help="dataset of the tuples that the check kept")]
_KEEPS = {True: "keep", False: "refuse"}


@app.command("sample")
def sample_command(
    file: FILE,
    of: OF = "tuples/checked",
    most: Annotated[int, typer.Option("--n", min=1, help="sample size; all tuples where there are fewer")] = 100,
) -> None:
    """Write tuples that the check judged, kept and refused alike, without saying which."""
    ref = resolve(store(), Ref.parse(of))
    sample = drawn(verdicts(store(), ref), most)
    write_sample(sample, file)
    typer.echo(f"{len(sample):,} tuples that {ref} kept or refused: {file}")


@app.command("read")
def read_command(
    file: FILE,
    of: OF = "tuples/checked",
    fmt: Annotated[Literal["table", "json"], typer.Option("--format", help="output format")] = "table",
) -> None:
    """Say how far the check agrees with the labels: Cohen's kappa, its 95% interval, and where they differ."""
    ref = resolve(store(), Ref.parse(of))
    labels = read_labels(file)
    if not labels:
        raise InputError(f"{file} has no labels: write yes or no under keep")
    pairs = matched(verdicts(store(), ref), labels, file)
    said, checked = np.array([(label.keeps, verdict.keeps) for label, verdict in pairs], bool).T
    found = agreement(said, checked)
    differ = [
        {"query_id": verdict.query_id, "tuple_id": verdict.tuple_id, "label": _KEEPS[label.keeps]}
        | {"failed": label.failed, "check": verdict.reason or _KEEPS[verdict.keeps]}
        for label, verdict in pairs
        if label.keeps != verdict.keeps
    ]
    if fmt == "json":
        typer.echo(json.dumps({"of": str(ref), "n": found.n} | asdict(found) | {"differ": differ}, indent=1))
    else:
        _show(ref, found, differ)


def _show(ref: Ref, found: Agreement, differ: list[dict[str, Any]]) -> None:
    out = console()
    kappa_text = "not defined, as both say the same of all"
    if found.kappa is not None:
        kappa_text = f"{found.kappa:.3f} (95% interval {found.low:.3f} to {found.high:.3f})"
    out.print(f"{ref} on {found.n:,} labels: agreement {found.share:.3f}, Cohen's kappa {kappa_text}", highlight=False)
    counts = Table("", "check keeps", "check refuses", box=SIMPLE_HEAD)
    for label, row in zip(("label: keep", "label: refuse"), found.table, strict=True):
        counts.add_row(label, *(f"{n:,}" for n in row))
    out.print(counts)
    if differ:
        table = Table("query_id", "label", "check", box=SIMPLE_HEAD, title="where they differ", title_justify="left")
        for one in differ:
            label = f"{one['label']} ({one['failed']})" if one["failed"] else one["label"]
            table.add_row(one["query_id"], label, clipped(one["check"]))
        out.print(table)
