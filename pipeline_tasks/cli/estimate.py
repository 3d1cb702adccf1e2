"""``foundry estimate``: the bill of an LLM's work, before it is paid."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.run import inputs_of, parameters_of
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import open_store

DAG = "synthesize_pairs"


def estimate_command(
    name: Annotated[str, typer.Argument(metavar="DAG", help=f"{DAG}, the one that pays")],
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=DATASET[@VERSION]", help="an input of write_needs"),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="a parameter of the run")
    ] = None,
    wanted: Annotated[
        int, typer.Option(min=0, help="training pairs of each intent: what to ask, from what the pairs so far yielded")
    ] = 0,
    answer_s: Annotated[float, typer.Option(min=0, help="seconds that one answer is taken to need")] = 2.0,
) -> None:
    """Passages, requests, tokens, dollars and hours of a run that writes pairs; answers that are there are free."""
    from pipeline_tasks.synthesis.enough import rates_for
    from pipeline_tasks.synthesis.estimate import estimate

    if name != DAG:
        raise InputError(f"{name!r} pays for nothing; ask about {DAG}, or `foundry run {name} --dry-run`")
    values = parameters_of(sets or [])
    if wanted:
        values["rates"] = rates_for(open_store(), wanted)
        typer.echo(
            f"write_needs: --set 'rates={json.dumps(values['rates'])}'; combine_pairs: --set per_intent={wanted}"
        )
    bills = estimate(open_store(), values, inputs_of(given or []))
    table = Table("step", "rows", "requests", "stored", "prompt tokens", "answer tokens", "dollars", "hours")
    for bill in bills:
        counts = (bill.rows, bill.n_requests, bill.n_stored, *bill.tokens)
        table.add_row(bill.step, *(f"{n:,}" for n in counts), f"{bill.usd:,.2f}", f"{bill.hours(answer_s):.2f}")
    console().print(table)
    hours = sum(bill.hours(answer_s) for bill in bills)
    typer.echo(f"{sum(bill.usd for bill in bills):,.2f} dollars, {hours:.2f} hours at {answer_s:g} s an answer")
    for line in dict.fromkeys(line for bill in bills for line in bill.notes()):
        typer.echo(line)
