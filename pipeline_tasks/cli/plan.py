"""``foundry plan``: what a step, a chain of steps or a DAG would do, take and cost, before it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from pipeline_tasks.cli.costs import CostSources, Figure
from pipeline_tasks.cli.dags import dag_names, steps_of
from pipeline_tasks.cli.inspect import sized
from pipeline_tasks.cli.plan_chain import Chain, Line, by_name, totals
from pipeline_tasks.cli.run import INPUTS, inputs_of, parameters_of
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.registry import step_names
from pipeline_tasks.core.store import open_store


def plan_command(
    names: Annotated[list[str], typer.Argument(metavar="DAG|STEP…", help="a DAG, or steps in the order of their run")],
    given: INPUTS = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PARAM=VALUE", help="value of a parameter, in all steps that have it; a DAG's form field"
        ),
    ] = None,
    on: Annotated[str, typer.Option(metavar="[Nx]GPU", help="GPUs of the trainings, such as 4xH100")] = "",
    answer_s: Annotated[float, typer.Option(min=0, help="assumed seconds per LLM answer")] = 2.0,
    dag: Annotated[bool, typer.Option("--dag", help="the name is the DAG's, where DAG and step share it")] = False,
) -> None:
    """Forecast a run: parts to compute, bytes to read, memory, hours, dollars, per step and in all; ~: extrapolated."""
    is_dag = len(names) == 1 and names[0] in dag_names() and (dag or names[0] not in step_names())
    unknown = [] if is_dag else [name for name in names if dag or name not in step_names()]
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is {'no DAG' if dag else 'neither a step nor one DAG'}; steps: {', '.join(step_names())}; "
            f"DAGs: {', '.join(dag_names()) or 'none here: they are in a checkout'}"
        )
    try:
        _plan(names, is_dag, parameters_of(sets or []), inputs_of(given or []), on, answer_s)
    finally:
        for name in () if is_dag else set(names) & set(dag_names()):
            typer.echo(f"this is the step {name}; the DAG of that name: foundry plan {name} --dag")


def _plan(
    names: list[str], is_dag: bool, values: dict[str, Any], inputs: dict[str, list[str]], on: str, answer_s: float
) -> None:
    store = open_store()
    skipped: list[str] = []
    if is_dag:
        if inputs:
            raise InputError(f"a run of {names[0]} finds its inputs itself; leave out --input, or name its steps")
        planned, skipped = steps_of(names[0], values)
        if not planned and not skipped:
            raise InputError(f"{names[0]} runs no step")
    else:
        planned = by_name(names, values, inputs)
    chain = Chain(CostSources(store, Rates.of(store), on, answer_s))
    show([chain.add(one) for one in planned], skipped)


def show(lines: list[Line], skipped: list[str]) -> None:
    """The table, its total, and what has to be known of it."""
    table = Table("step", "makes", "to do", "rows", "reads", "memory", "hours", "dollars", "from")
    for line in lines:
        peak = f", had {sized(line.peak_bytes)}" if line.peak_bytes else ""
        table.add_row(
            line.step.name,
            line.dataset,
            line.todo,
            line.rows.text(),
            "?" if line.size_bytes.value is None else _approximately(line.size_bytes.sure, line.size_bytes.value),
            f"{line.memory_gib:g} GiB{peak}",
            _hours(line.cost.hours),
            line.cost.dollars.text(",.2f"),
            line.cost.source,
        )
    console().print(table)
    hours, dollars, missing = totals(lines)
    unknown = f"; not known: {', '.join(missing)}" if missing else ""
    typer.echo(f"{_hours(hours)} hours, {dollars.text(',.2f')} dollars{unknown}")
    for note in dict.fromkeys(note for line in lines for note in line.cost.notes):
        typer.echo(note)
    if skipped:
        typer.echo(f"skipped with these parameters: {', '.join(dict.fromkeys(skipped))}")


def _hours(hours: Figure) -> str:
    return hours.text(".2g" if (hours.value or 0) < 1 else ",.1f")


def _approximately(sure: bool, size: float) -> str:
    return f"{'' if sure or not size else '~'}{sized(size)}"
