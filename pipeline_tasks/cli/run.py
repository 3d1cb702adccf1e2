"""``foundry run`` and ``foundry steps``."""

from __future__ import annotations

import json
import signal
import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.execution.todo import Todo
from pipeline_tasks.core.lines import say
from pipeline_tasks.core.plan import Job, plan
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, Resources
from pipeline_tasks.core.store import Store, open_store

INPUTS = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=DATASET[@VERSION]", help="version to read as that input, in all steps that have it"
    ),
]
"""Of several steps."""


def run_command(
    name: Annotated[str, typer.Argument(metavar="STEP", help="a step's name; `foundry steps` lists them")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="NAME=DATASET[@VERSION]", help="version to read as that input; several comma-separated"
        ),
    ] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="value of a parameter")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be computed")] = False,
    on: Annotated[
        str,
        typer.Option(metavar="[Nx]GPU", help="with --dry-run: forecast of a training on these GPUs, such as 4xH100"),
    ] = "",
    group: Annotated[str, typer.Option(metavar="I/N", help="only compute parts I, I+N, … of a map step")] = "",
) -> None:
    """Run one step; the last line printed is the version it made, or had made before."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    store = open_store()
    step = get_step(name)
    job = plan(store, step, parameters_of(sets or []), inputs_of(given or []))
    if on and not dry_run:
        raise InputError(f"--on {on} says what --dry-run is to count with; a run takes the GPUs that it finds")
    if dry_run:
        typer.echo("\n".join([Todo.of(store, job).line(), *_forecast(store, job, on)]))
        return
    outcome = run_job(store, job, group=_group(group), workers=settings().workers)
    counts = ", ".join(f"{key} {value:,.10g}" for key, value in sorted(outcome.counters.items()))
    say(f"{name}: {'reused' if outcome.reused else 'built'}: {counts}")
    typer.echo(str(outcome.ref) if outcome.ref else f"group {group}")


def _forecast(store: Store, job: Job, on: str) -> list[str]:
    """What it would take of a GPU or of an LLM, where that is known before: a training's, and what writes pairs."""
    from pipeline_tasks.synthesis.llm.endpoint import LlmParams
    from pipeline_tasks.training.dry_run.forecast import forecast_lines

    if job.made(store):
        return []
    if isinstance(job.params, LlmParams):
        from pipeline_tasks.synthesis.estimate import of_step

        return of_step(store, job).lines()
    return forecast_lines(Inputs(job.open(store)), job.params, on)


def steps_command() -> None:
    """List all steps: inputs and output, kind, parameters, resources (see docs/backends.md)."""
    table = Table("step", "kind", "reads", "writes", "may take", "parameters", "what it does")
    for name in step_names():
        step = get_step(name)
        reads = "\n".join(f"{n}={_source(r)}" for n, r in step.reads.items())
        params = "\n".join(f"{n}={_default(f)}" for n, f in step.params.model_fields.items())
        table.add_row(name, step.kind, reads, step.dataset, resources_text(resources_of(step)), params, step.doc)
    console().print(table)


def _source(read: From) -> str:
    return f"as {read.read_by} read" if read.read_by else read.dataset or (read.schema.name if read.schema else "")


def resources_text(needs: Resources) -> str:
    """Image, memory, memory of a second run, cards, nodes, time, tries and secrets of a step, a line each."""
    minutes = needs.timeout_minutes
    hours = f"{minutes / 60:g} h" if minutes >= 60 else f"{minutes:g} min"
    more = [] if needs.more_memory_gib is None else [f"then {needs.more_memory_gib:g} GiB"]
    cards = [] if needs.gpus is None else [f"{needs.gpus} GPUs"]
    nodes = [] if needs.nodes == 1 else [f"on each of {needs.nodes} nodes"]
    retries = f"{needs.retries} retries" + (", goes on" if needs.resumes else "")
    keys = [f"key of {name}" for name in needs.secrets]
    time = hours if minutes else "no time limit"
    return "\n".join([needs.image, f"{needs.memory_gib:g} GiB", *more, *cards, *nodes, time, retries, *keys])


def _default(field: Any) -> str:
    if field.is_required():
        return "(required)"
    return "(of the others, the settings or the domain)" if field.default_factory else str(field.default)


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{option} {text!r} is not NAME=VALUE")
    return name, value


def inputs_of(given: list[str]) -> dict[str, list[str]]:
    """Input name -> datasets, as ``--input`` names them."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, value = _split(text, "--input")
        found.setdefault(name, []).extend(v for v in value.split(",") if v)
    return found


def parameters_of(sets: list[str]) -> dict[str, Any]:
    """Values as the parameter's own type reads them; what begins as a list, an object or a quoted text is JSON."""
    found: dict[str, Any] = {}
    for text in sets:
        name, value = _split(text, "--set")
        found[name] = _json(text, value) if value.startswith(("[", "{", '"')) else value
    return found


def _json(text: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise InputError(f"--set {text!r} begins as JSON and is none ({error}); mend it, or quote it as JSON") from None


def _group(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    i, slash, n = text.partition("/")
    if not (slash and i.isdigit() and n.isdigit() and int(i) < int(n)):
        raise InputError(f"--group {text!r} is not I/N with I < N, for example 0/4")
    return int(i), int(n)
