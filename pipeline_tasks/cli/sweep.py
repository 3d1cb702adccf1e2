"""``foundry sweep``: steps in a row, once for every combination of some values of their parameters."""

from __future__ import annotations

import shlex
import signal
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from typing import Annotated, Any

import typer
from rich.table import Table

from pipeline_tasks.cli.costs import CostSources
from pipeline_tasks.cli.plan_chain import Chain, Line, PlannedStep, by_name, defaults_after
from pipeline_tasks.cli.run import INPUTS, inputs_of, parameters_of
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.lineage.query import query
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.lines import say
from pipeline_tasks.core.manifest import LATEST, REJECTS_SUFFIX, Ref
from pipeline_tasks.core.parameters import default_of
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store, open_store
from pipeline_tasks.core.versions import load_manifest, resolve

_COUNTED = """SELECT name, value FROM counters JOIN last_builds USING (run_id, dataset, version)
              WHERE dataset = ? AND version = ?"""


def sweep_command(
    names: Annotated[list[str], typer.Argument(metavar="STEP…", help="steps in the order of their run")],
    over: Annotated[
        list[str],
        typer.Option("--over", metavar="PARAM=A,B", help="values to try, a JSON list of them, or one JSON object"),
    ],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="value of a parameter in all combinations")
    ] = None,
    given: INPUTS = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="COUNTER", help="counter of the last step to sort by: highest first, of a loss lowest first"
        ),
    ] = "dev_ndcg_at_10",
) -> None:
    """Grid search: run every combination, list the best by the last step's counter first; what is there is not rerun.

    A parameter goes to all steps that have it; `objective.alpha` is a nested one.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    store, fixed, inputs = open_store(), parameters_of(sets or []), inputs_of(given or [])
    settings_tried = list(combinations([_values(text) for text in over]))
    there: dict[str, str] = {}
    chains = [
        with_versions(store, by_name(names, nested(fixed | chosen, names), inputs), there) for chosen in settings_tried
    ]
    read = {text for steps in chains for one in steps for texts in one.inputs.values() for text in texts}
    found: list[tuple[dict[str, Any], Outcome]] = []
    with pinned(store, "sweep", map(Ref.parse, read)), ExitStack() as made:
        check_all_run(store, chains)
        try:
            for number, (chosen, steps) in enumerate(zip(settings_tried, chains, strict=True), 1):
                say(f"setting {number} of {len(settings_tried)}: {setting_text(chosen)}")
                found.append((chosen, run_chain(store, steps)))
                with made.pop_all():  # the one pin before goes behind the new one: in a bucket each has a thread
                    made.enter_context(pinned(store, "sweep", filter(None, [outcome.ref for _, outcome in found])))
        finally:
            if found:
                _show(best_first(found, by), by)


def check_all_run(store: Store, chains: list[list[PlannedStep]]) -> None:
    """See that every chain can run, before the first step costs anything; no prompt is built for that.

    Raises:
        InputError: a step of one cannot.
    """
    lines: dict[str, Line] = {}
    for steps in chains:
        chain = Chain(CostSources(store, Rates([], []), on="", answer_s=0, priced=False))
        for n, planned in enumerate(steps, 1):
            # What chains begin with is looked at once: a look may ask the store for every part.
            begun = str([(one.step.name, one.values, one.inputs) for one in steps[:n]])
            chain.lines[planned.name] = lines[begun] = lines.get(begun) or chain.add(planned)


def _show(found: list[tuple[dict[str, Any], Outcome]], by: str) -> None:
    """The table of what was made, and what can be said and done of it."""
    table = Table(*found[0][0], by, "version")
    for chosen, made in found:
        table.add_row(*map(str, chosen.values()), _counter(made, by), str(made.ref))
    console().print(table)
    if not any(by in made.counters for _, made in found):
        counted = ", ".join(sorted(found[0][1].counters)) or "nothing"
        typer.echo(
            f"none of them counted {by}: they are as they were run. A training counts dev_ndcg_at_10 where there are "
            f"development queries; --by may name: {counted}"
        )
    if str(found[0][1].ref).startswith("model/"):
        typer.echo(shlex.join(["foundry", "evaluate", *(str(made.ref) for _, made in found)]))


def combinations(values: list[tuple[str, list[Any]]]) -> Iterator[dict[str, Any]]:
    """Parameter -> value, of every combination; the last parameter changes first."""
    for chosen in product(*(each for _, each in values)):
        yield dict(zip((name for name, _ in values), chosen, strict=True))


def best_first(found: list[tuple[dict[str, Any], Outcome]], by: str) -> list[tuple[dict[str, Any], Outcome]]:
    """Settings by this counter of what was made: of a loss the lowest first, of any other the highest."""
    sign = 1 if "loss" in by else -1
    return sorted(found, key=lambda one: sign * one[1].counters[by] if by in one[1].counters else float("inf"))


def nested(values: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Values by parameter: what is named ``a.b`` goes into a, beside what that has; one that is a name is its ``name``.

    Raises:
        InputError: a is neither given as an object nor one of its kind by default.
    """
    found = {name: value for name, value in values.items() if "." not in name}
    for path, value in values.items():
        name, dot, part = path.partition(".")
        if not dot:
            continue
        steps = [step for step in map(get_step, names) if name in step.params.model_fields]
        whole = found.get(name, default_of(steps[0], name) if steps else None)
        whole = {"name": whole} if isinstance(whole, str) else whole
        if not isinstance(whole, dict):
            raise InputError(f"{path}: {name} is no parameter of {', '.join(names)} that has parts")
        found[name] = whole | {part: value}
    return found


def with_versions(store: Store, chain: list[PlannedStep], there: dict[str, str]) -> list[PlannedStep]:
    """The steps with all their inputs: of what no step before them writes the versions that are there now.

    Args:
        store: the store.
        chain: steps in the order of their run.
        there: name -> version of what was looked up for chains before, to which this adds; empty: it was not there.

    Raises:
        InputError: an input that decides what another one reads is not there.
    """
    found: list[PlannedStep] = []
    for planned in chain:
        before, inputs = {one.name: one for one in found}, dict(planned.inputs)
        for name, read in planned.step.read_with(planned.step.parse(planned.values)).items():
            optional = read.optional and name not in inputs
            texts = inputs[name] if name in inputs else _defaults(store, replace(planned, inputs=inputs), name, before)
            versions = [(text, _version(store, text, before, there)) for text in texts]
            inputs[name] = [version or text for text, version in versions if version or not optional]
        found.append(replace(planned, inputs=inputs))
    return found


def _defaults(store: Store, planned: PlannedStep, name: str, before: Mapping[str, PlannedStep]) -> list[str]:
    """Datasets read by default; with those that another input read, where that decides it."""
    readers = planned.inputs.get(planned.step.reads[name].read_by, ())
    read = [before.get(text) or load_manifest(store, Ref.parse(text)) for text in readers]
    datasets = [Ref.parse(text).dataset for one in read for text in one.inputs.get(name, ())]
    after = defaults_after(planned, name, {text: one.step for text, one in before.items()})
    return list(dict.fromkeys(after + datasets))


def _version(store: Store, text: str, before: Collection[str], there: dict[str, str]) -> str:
    ref = Ref.parse(text)
    if ref.of_rows.dataset in before and ref.version == LATEST:
        return ref.dataset
    if text not in there:
        try:
            there[text] = str(resolve(store, ref))
        except InputError:  # the plan says so where the step needs it
            there[text] = ""
    return there[text]


def run_chain(store: Store, chain: list[PlannedStep]) -> Outcome:
    """Run steps, each of which reads what those before it made; what became of the last one."""
    made: dict[str, str] = {}
    for planned in chain:
        linked = {name: [made.get(text, text) for text in texts] for name, texts in planned.inputs.items()}
        outcome = run_job(store, plan(store, planned.step, planned.values, linked), workers=settings().workers)
        made[planned.name] = str(outcome.ref)
        made[planned.name + REJECTS_SUFFIX] = made[planned.name].replace("@", f"{REJECTS_SUFFIX}@")
    return _as_when_built(store, outcome)


def _as_when_built(store: Store, outcome: Outcome) -> Outcome:
    """With what the run counted that built it, also where it was found made; the last one, if it was dropped since."""
    if not outcome.reused or not outcome.ref:
        return outcome
    rows = query(store, _COUNTED, [outcome.ref.dataset, outcome.ref.version], rows=False).to_pylist()
    counted = {row["name"]: row["value"] for row in rows}
    return replace(outcome, counters=Counter({**outcome.counters, **counted}))


def setting_text(chosen: dict[str, Any]) -> str:
    """A setting in a line."""
    return ", ".join(f"{name}={value}" for name, value in chosen.items())


def _values(text: str) -> tuple[str, list[Any]]:
    name, value = next(iter(parameters_of([text]).items()))
    if isinstance(value, str):
        value = [one for one in value.split(",") if one]
    values = value if isinstance(value, list) else [value]
    if not values:
        raise InputError(f"--over {text!r} has no value to try: say PARAM=A,B")
    return name, values


def _counter(made: Outcome, name: str) -> str:
    return f"{made.counters[name]:,.10g}" if name in made.counters else "none"
