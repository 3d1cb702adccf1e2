"""``foundry batch``: what a step will ask an LLM, bought by the file at half the price."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pipeline_tasks.cli.run import inputs_of, parameters_of
from pipeline_tasks.core import lines
from pipeline_tasks.core.errors import OPEN, InputError, TransientError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.store import open_store


def batch_command(
    name: Annotated[str, typer.Argument(metavar="STEP", help="a step that asks an LLM")],
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=DATASET[@VERSION]", help="version to read as that input"),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="value of a parameter")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="poll until every answer is there")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="polling interval, in seconds")] = 60.0,
) -> None:
    """Buy the answers that a step will ask for by the endpoint's batch API; the step then finds them stored.

    Without --wait it looks once, and exits with 75 while answers are on their way, or a run of the step asks: call it
    again.
    """
    from pipeline_tasks.synthesis.llm.asking_runs import RunAsks
    from pipeline_tasks.synthesis.llm.batch_files import MOST
    from pipeline_tasks.synthesis.llm.batch_rounds import Round, buy_ahead
    from pipeline_tasks.synthesis.llm.endpoint import LlmParams

    if name not in step_names() or not issubclass(get_step(name).params, LlmParams):
        raise InputError(f"{name!r} asks no LLM; name a step with the parameter llm (`foundry steps`)")
    store = open_store()
    job = plan(store, get_step(name), parameters_of(sets or []), inputs_of(given or []))
    while True:
        try:
            found = buy_ahead(store, job, MOST)
            way = f"{found.open:,} requests of {name} are on their way, {found.done:,} of them answered"
        except RunAsks as asks:
            found, way = Round(open=1), str(asks)
        if found.answered or found.failed:
            typer.echo(f"{found.answered:,} answers for {found.usd:,.4f} dollars, {found.failed:,} without one")
        if not found.open:
            break
        if not wait:
            typer.echo(f"{OPEN} {found.open}")
            raise TransientError(f"{way}; call it again later, or with --wait")
        lines.say(f"{way}; next look in {every_s:g} s")
        time.sleep(every_s)
    typer.echo(f"nothing is left to buy by batches; next: {job.command()}")
