"""A chain of steps before any of it runs: what each would do, also where its inputs are not there yet.

What an earlier step of the chain would write is taken from the ratio of rows out to rows in of its versions so far, and
how much of that is new from what is new to it: a part that was worked on stays a memo hit down the chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline_tasks.cli.costs import NOTHING, UNKNOWN, Cost, CostSources, Figure
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.todo import Todo
from pipeline_tasks.core.manifest import LATEST, Manifest, Ref
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.plan import Job, plan, refuse_none, resolve_inputs
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import Step, StepParams
from pipeline_tasks.core.versions import Version, load_manifest, resolve_name


@dataclass(frozen=True)
class PlannedStep:
    """A step as it would be run.

    Attributes:
        step: the step.
        values: parameters.
        inputs: input name -> datasets, versions, or names of what earlier steps of the chain would write; others are
            the defaults.
        name: what later steps call its output.
    """

    step: Step
    values: dict[str, Any]
    inputs: dict[str, list[str]]
    name: str


def by_name(names: list[str], values: dict[str, Any], inputs: dict[str, list[str]]) -> list[PlannedStep]:
    """Steps by name: each gets the parameters and inputs that it has, and reads what those before it write.

    Raises:
        InputError: there is no such step, or no step of them has such a parameter or input.
    """
    steps = [get_step(name) for name in names]
    for option, words, known in (
        ("--set", values, {name for step in steps for name in step.params.model_fields}),
        ("--input", inputs, {name for step in steps for name in step.reads}),
    ):
        if unknown := sorted(set(words) - known):
            raise InputError(
                f"{option} {unknown[0]}: {', '.join(names)} have no such name; they have: {', '.join(sorted(known))}"
            )
    found = []
    for step in steps:
        chosen = usual(step) | {name: value for name, value in values.items() if name in step.params.model_fields}
        read = {name: texts for name, texts in inputs.items() if name in step.reads}
        found.append(PlannedStep(step, chosen, read, step.output(step.parse(chosen))))
    return found


def defaults_after(planned: PlannedStep, name: str, before: Mapping[str, Step]) -> list[str]:
    """Datasets read by default behind steps, by what they write: of what another input read, all that they write."""
    params, reads = planned.step.parse(planned.values), planned.step.reads
    if not (reader := reads[name].read_by):
        return reads[name].defaults(params)
    readers = planned.inputs.get(reader, reads[reader].defaults(params))
    return [one for one, step in before.items() if readers and step.writes == reads[name].schema]


@dataclass(frozen=True)
class Line:
    """One step of the chain.

    Attributes:
        step: the step.
        dataset: that it writes; with its version, where that is there.
        todo: what there is to do, in a few words.
        rows: to work on.
        size_bytes: of the parts that would be opened: a step that reads single columns reads less.
        cost: hours and dollars.
        memory_gib: that it may take.
        peak_bytes: that its earlier runs took; 0: not measured.
        out: rows that it would write.
        share_new: of these, those that no version before has.
        made: what those read that come after it: its version, where that is there.
        job: the step with its inputs, where these are there.
    """

    step: Step
    dataset: str
    todo: str
    rows: Figure
    size_bytes: Figure
    cost: Cost
    memory_gib: float
    peak_bytes: int
    out: Figure
    share_new: float = 1.0
    made: Manifest | None = None
    job: Job | None = None


@dataclass
class Chain:
    """Steps in the order in which they would run."""

    known: CostSources
    lines: dict[str, Line] = field(default_factory=dict)

    def add(self, planned: PlannedStep) -> Line:
        """What ``planned`` would do after the steps before it.

        Raises:
            InputError: a parameter or an input is wrong, or an input is not there and no step before it writes it.
        """
        given, coming = self._inputs(planned)
        line = self._waiting(planned, given, coming) if coming else self._ready(planned, given)
        self.lines[planned.name] = line
        return line

    def _inputs(self, planned: PlannedStep) -> tuple[dict[str, list[str]], dict[str, list[Line]]]:
        """Inputs that are there or that no step before writes, and those that are to come."""
        step, params = planned.step, planned.step.parse(planned.values)
        given = {name: texts for name, texts in planned.inputs.items() if name not in step.read_with(params)}
        coming: dict[str, list[Line]] = {}
        steps = {name: line.step for name, line in self.lines.items()}
        for name in step.read_with(params):
            texts = planned.inputs.get(name, defaults_after(planned, name, steps))
            written = {text: line for text in texts if (line := self._writing(text))}
            before = [written[text] for text in texts if text in written]
            there = [str(found.made.ref) for found in before if found.made]
            if waiting := [found for found in before if not found.made]:
                coming[name] = waiting
            if before or name in planned.inputs:
                given[name] = there + [text for text in texts if text not in written]
        return given, coming

    def _writing(self, text: str) -> Line | None:
        """The step before whose rows or rejects ``text`` means, if any; how many rejects there will be is not known."""
        try:
            ref = Ref.parse(text)
        except InputError:  # the plan says so, or passes over it where it is optional
            return None
        line = self.lines.get(text) or (self.lines.get(ref.of_rows.dataset) if ref.version == LATEST else None)
        if line is None or ref == ref.of_rows:
            return line
        made = line.made and load_manifest(self.known.store, Ref(dataset=ref.dataset, version=line.made.id))
        return replace(line, out=UNKNOWN, made=made)

    def _ready(self, planned: PlannedStep, given: dict[str, list[str]]) -> Line:
        """Of a step whose inputs are all there."""
        job = plan(self.known.store, planned.step, planned.values, given)
        todo = Todo.of(self.known.store, job)
        rows = Figure(todo.rows)
        if todo.made:
            return self._line(planned, todo, rows, Cost(NOTHING, NOTHING), Figure(todo.made.rows))
        cost = self.known.of_job(job, rows)
        latest = resolve_name(self.known.store, job.dataset) if planned.step.grows and not todo.rows_read else None
        if latest:
            counted = f"{planned.step.name} looks outside: what reads it is counted with {latest}, its latest version"
            before = load_manifest(self.known.store, latest)
            cost = replace(cost, notes=[*cost.notes, counted])
            return replace(self._line(planned, todo, rows, cost, Figure(before.rows, sure=False)), made=before)
        out = Figure(todo.rows_read).times(self._rows_out(planned.step, job.dataset))
        return self._line(planned, todo, rows, cost, out, self._share(job.dataset, todo, out))

    def _line(
        self, planned: PlannedStep, todo: Todo, rows: Figure, cost: Cost, out: Figure, share: float = 0.0
    ) -> Line:
        step, dataset = planned.step, todo.job.dataset
        return Line(
            step=step,
            dataset=str(todo.made.ref) if todo.made else dataset,
            todo=todo.short(),
            rows=rows,
            size_bytes=Figure(todo.size_bytes),
            cost=cost,
            memory_gib=resources_of(step).memory_gib,
            peak_bytes=self.known.rates.peak_bytes(step, dataset),
            out=out,
            share_new=share,
            made=todo.made,
            job=todo.job,
        )

    def _share(self, dataset: str, todo: Todo, out: Figure) -> float:
        """Of the rows that would be written those that are new."""
        step = todo.job.step
        if step.kind == "map":
            return todo.rows / todo.rows_read if todo.rows_read else 1.0
        ref = resolve_name(self.known.store, dataset) if step.keeps or step.grows else None
        before = load_manifest(self.known.store, ref) if ref else None
        if before is None:
            return 1.0
        if step.grows:
            return max(0.0, 1 - before.rows / out.value) if out.value else 1.0
        held = {part.sha256 for part in before.parts}
        refs = [ref for name in step.keeps for ref in todo.job.inputs.get(name, [])]
        parts = [part for ref in refs for part in load_manifest(self.known.store, ref).parts]
        rows = sum(part.rows for part in parts)
        return sum(part.rows for part in parts if part.sha256 not in held) / rows if rows else 1.0

    def _waiting(self, planned: PlannedStep, given: dict[str, list[str]], coming: dict[str, list[Line]]) -> Line:
        """Of a step that reads what an earlier one has not written yet."""
        step, params = planned.step, planned.step.parse(planned.values)
        if unknown := sorted(set(given) - set(step.reads)):
            raise InputError(f"{step.name} has no input {unknown[0]!r}; its inputs are: {', '.join(step.reads)}")
        refuse_none(step, params, {name: texts for name, texts in given.items() if name not in coming})
        rows: dict[str, Figure] = {}
        size = NOTHING
        resolved = resolve_inputs(self.known.store, step, params, dict.fromkeys(coming, []) | given)
        params.check_inputs([*coming, *(name for name, refs in (given | resolved).items() if refs)])
        opened = {
            name: [Version.open(self.known.store, ref, step.reads[name].schema) for ref in refs]
            for name, refs in resolved.items()
            if name not in coming
        }
        params.check_versions(Inputs(opened))
        for name, refs in resolved.items():
            there = [load_manifest(self.known.store, ref) for ref in refs]
            rows[name] = Figure(sum(manifest.rows for manifest in there))
            size = size.plus(Figure(sum(part.size_bytes for manifest in there for part in manifest.parts)))
            for line in coming.get(name, ()):
                rows[name] = rows[name].plus(line.out)
                size = size.plus(line.out.times(self.known.rates.row_bytes(line.step, line.dataset)))
        dataset, new = step.output(params), self._share_coming(step, coming)
        worked = new if step.kind == "map" and set(coming) == {next(iter(step.reads))} else 1.0
        read_rows = self._read_rows(step, rows)
        todo_rows, cost = self._work(step, params, coming, read_rows.times(worked))
        return Line(
            step=step,
            dataset=dataset,
            todo=f"after {', '.join(dict.fromkeys(line.step.name for found in coming.values() for line in found))}",
            rows=todo_rows,
            size_bytes=size.times(worked),
            cost=cost,
            memory_gib=resources_of(step).memory_gib,
            peak_bytes=self.known.rates.peak_bytes(step, dataset),
            out=read_rows.times(self._rows_out(step, dataset)),
            share_new=new,
        )

    def _work(self, step: Step, params: StepParams, coming: dict[str, list[Line]], rows: Figure) -> tuple[Figure, Cost]:
        """Rows and cost; pairs, which the estimate expects of needs that are not written, are priced without a run."""
        needs = [line.job for found in coming.values() for line in found if line.step.name == "write_needs"]
        if step.name == "write_pairs" and len(needs) == 1 and needs[0]:
            return self.known.of_pairs(needs[0], params)
        return rows, self.known.measured(step, params, rows)

    def _read_rows(self, step: Step, rows: dict[str, Figure]) -> Figure:
        if step.kind == "map":
            return rows[next(iter(step.reads))]
        total = NOTHING
        for found in rows.values():
            total = total.plus(found)
        return total

    def _share_coming(self, step: Step, coming: dict[str, list[Line]]) -> float:
        """Of the rows that it would write those that are new, where it writes a row for those that it reads.

        A map step that reads something else beside them has to look at every part again; what it makes of a part that
        is not new is taken to be what it made before.
        """
        through = {next(iter(step.reads))} if step.kind == "map" else set(step.keeps)
        lines = [line for name in through for line in coming.get(name, ())]
        return max((line.share_new for line in lines), default=1.0)

    def _rows_out(self, step: Step, dataset: str) -> float | None:
        return self.known.rates.rows_out(step, dataset)


def totals(lines: list[Line]) -> tuple[Figure, Figure, list[str]]:
    """Hours and dollars of what is known, and names of the steps of which one or the other is not."""
    found: list[Figure] = []
    for figures in ([line.cost.hours for line in lines], [line.cost.dollars for line in lines]):
        total = NOTHING
        for figure in figures:
            total = total.plus(figure if figure.value is not None else NOTHING)
        found.append(total)
    missing = [line.step.name for line in lines if None in (line.cost.hours.value, line.cost.dollars.value)]
    return found[0], found[1], list(dict.fromkeys(missing))
