"""``foundry estimate``: the bill of an LLM's work, before it is paid."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks.cli.costs import NOTHING, Figure
from pipeline_tasks.cli.run import inputs_of, parameters_of
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.store import open_store

DAG = "synthesize_pairs"


def estimate_command(
    name: Annotated[str, typer.Argument(metavar="DAG|STEP", help=f"{DAG}, or a step that asks an LLM")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=DATASET[@VERSION]", help="version to read as that input; of a DAG its first"
        ),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="value of a parameter")] = None,
    wanted: Annotated[
        int, typer.Option(min=0, help="training pairs wanted per intent: gives the sample rates, by the yield so far")
    ] = 0,
    answer_s: Annotated[float, typer.Option(min=0, help="assumed seconds per LLM answer")] = 2.0,
) -> None:
    """Forecast LLM use: rows, requests, tokens, dollars, hours, per step and in all; stored answers are free."""
    from pipeline_tasks.synthesis.enough import per_intent_for, rates_for, too_few_for
    from pipeline_tasks.synthesis.estimate import estimate, of_step
    from pipeline_tasks.synthesis.llm.batch_rounds import SHARE
    from pipeline_tasks.synthesis.llm.endpoint import LlmParams

    pays = name in step_names() and issubclass(get_step(name).params, LlmParams)
    if name != DAG and not pays:
        free = f", or `foundry run {name} --dry-run`" if name in step_names() else ""
        raise InputError(f"{name!r} pays for nothing; ask about {DAG}, or a step with the parameter llm{free}")
    if wanted and pays:
        raise InputError(f"--wanted counts training pairs, which {DAG} makes and {name} does not: leave it out")
    values = parameters_of(sets or [])
    if wanted:
        intents = values.get("intents")
        values["rates"] = {i: r for i, r in rates_for(open_store(), wanted).items() if intents is None or i in intents}
        rates, most = json.dumps(values["rates"]), per_intent_for(wanted)
        typer.echo(f"write_needs: --set 'rates={rates}'; combine_pairs: --set per_intent={most}")
        for intent, n in too_few_for(open_store(), wanted).items():
            if intent in values["rates"]:
                typer.echo(
                    f"{intent}: all of its passages should give some {n:,} pairs, {wanted:,} are wanted: raise "
                    "intents_per_passage, loosen checks, or add documents"
                )
    store, inputs = open_store(), inputs_of(given or [])
    bills = [of_step(store, plan(store, get_step(name), values, inputs))] if pays else estimate(store, values, inputs)
    table = Table("step", "rows", "requests", "stored", "prompt tokens", "answer tokens", "dollars", "hours")
    usd = NOTHING
    for bill in bills:
        counts = (bill.rows, bill.n_requests, bill.n_stored, *bill.tokens)
        dollars = Figure(bill.usd)
        table.add_row(bill.step, *(f"{n:,}" for n in counts), dollars.text(",.2f"), f"{bill.hours(answer_s):.2f}")
        usd = usd.plus(dollars)
    console().print(table)
    hours = sum(bill.hours(answer_s) for bill in bills)
    by_batches = f"; by batches {usd.value * SHARE:,.2f} dollars, within a day for each step" if usd.value else ""
    typer.echo(f"{usd.text(',.2f')} dollars, {hours:.2f} hours at {answer_s:g} s an answer{by_batches}")
    for bill in bills if pays else ():
        n = max(1, bill.rows)
        typer.echo(
            f"a row: {bill.n_requests / n:.2f} requests, {sum(bill.tokens) / n:,.0f} tokens, "
            f"{'?' if bill.usd is None else format(bill.usd / n, '.6f')} dollars"
        )
    for line in dict.fromkeys(line for bill in bills for line in bill.notes()):
        typer.echo(line)
