"""From a step, parameters and inputs to a job: exact input versions, output dataset and version id, before any work."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.growth_requests import CHANGE, ancestry, before, requests
from pipeline_tasks.core.manifest import LATEST, PREVIOUS, REJECTS_SUFFIX, Ref, version_id
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.step import From, Step, StepParams
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, load_manifest, ref_key, resolve, resolve_name, whole

log = logging.getLogger(__name__)
_RUN_AGAIN = "nothing mixed was kept; put it back to go on from what was made, or run it again as it is now"


@dataclass(frozen=True)
class Job:
    """A step with everything that decides its result.

    Attributes:
        step: the step.
        params: its parameters.
        inputs: input name -> versions.
        change: sha256 of what a growing dataset gains and loses; empty until that is known.
        planned: the identity of the parameters when it was planned, which decides all of its names: what a step reads
            beside its inputs (prompts, files, a model's folder) may change while it runs.
    """

    step: Step
    params: StepParams
    inputs: dict[str, list[Ref]]
    change: str = ""
    planned: dict[str, Any] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Look at what is beside the inputs, once."""
        if self.planned is None:
            object.__setattr__(self, "planned", self.params.identity())

    @property
    def dataset(self) -> str:
        """Name of the dataset it writes."""
        return self.step.output(self.params)

    @property
    def input_names(self) -> dict[str, list[str]]:
        """Input name -> ``dataset@version``; part of the version id."""
        return {name: [str(ref) for ref in refs] for name, refs in self.inputs.items()}

    @property
    def identity(self) -> dict[str, Any]:
        """The parameters as they enter the version id."""
        return self.planned | ({CHANGE: self.change} if self.change else {})

    @property
    def ref(self) -> Ref:
        """The version it makes; of a growing dataset, whose change is not known yet, the name of the request."""
        made = version_id(self.step.name, self.step.version, self.identity, self.input_names)
        return Ref(dataset=self.dataset, version=made)

    @property
    def facts(self) -> dict[str, Any]:
        """What each event of a run of it says."""
        return {"params": self.identity, "dataset": self.dataset, "request_id": self.ref.version}

    def check_unchanged(self) -> None:
        """See that what was computed is of what was planned, before it is kept under that name.

        Raises:
            InputError: what the step reads beside its inputs is not what it was.
        """
        with suppress(OSError):  # a file that is gone is another as well
            now = self.params.identity()
            if now == self.planned:
                return
            differ = sorted(n for n in now.keys() | self.planned if now.get(n) != self.planned.get(n))
            raise InputError(f"{self.step.name}: {', '.join(differ)} changed while it ran; {_RUN_AGAIN}")
        raise InputError(f"{self.step.name}: a file that it reads beside its inputs is gone since; {_RUN_AGAIN}")

    def command(self, **changed: str) -> str:
        """The command that makes it, with ``changed`` parameters."""
        set_to = {n: v for n, v in self.params.model_dump(mode="json", exclude_defaults=True).items() if v is not None}
        values = {n: v if isinstance(v, str) else json.dumps(v) for n, v in set_to.items()} | changed
        words = ["foundry", "run", self.step.name]
        for name, refs in self.input_names.items():
            words += ["--input", f"{name}={','.join(refs)}"]
        for name, value in values.items():
            words += ["--set", f"{name}={value}"]
        return shlex.join(words)

    def made(self, store: Store) -> Ref | None:
        """The version, if it is there with all its parts and the body has nothing to do.

        Of a growing dataset that is the latest version where it answers the same request, unless the step always looks.
        Where an input is older than the latest of its dataset, it may be one that the latest version grew from.
        """
        if not self.step.grows:
            return self.ref if whole(store, self.ref) else None
        previous = None if self.step.always else self.previous(store)
        if previous is None:
            return None
        latest = previous.manifest
        for manifest in ancestry(store, latest) if self._reads_older(store) else [latest]:
            answers = self.ref.version in (request.id for request in requests(store, manifest))
            if answers and (manifest is latest or whole(store, manifest.ref)):
                return manifest.ref
        return None

    def _reads_older(self, store: Store) -> bool:
        """Whether an input is not what ``latest`` of its dataset means."""
        return any(resolve_name(store, ref.dataset) != ref for ref in _sources(self.input_names))

    def refuse_setback(self, store: Store) -> None:
        """Refuse to take a growing dataset, made of the latest of an input, back to another version of that input.

        Raises:
            InputError: it would be.
        """
        grown = resolve_name(store, self.dataset) if self.step.grows and not self.step.always else None
        if grown is None:
            return
        asked = requests(store, load_manifest(store, grown))
        answered = {ref for request in asked for ref in _sources(request.inputs)}
        mine = _sources(self.input_names)
        for ref in sorted(mine, key=str):
            newest = resolve_name(store, ref.dataset)
            if newest in answered - mine:
                raise InputError(
                    f"{self.step.name} of {ref} would set {self.dataset} back: {grown} was made of {newest}, the "
                    f"latest of {ref.dataset}; run it with that, or make {ref} the latest first: foundry point {ref}"
                )

    def previous(self, store: Store) -> Version | None:
        """What a growing dataset grows from: its latest version, if the same step in the same code version made it.

        One that has lost a part is passed over for the one that it grew from.
        """
        ref = resolve_name(store, self.dataset)
        while ref:
            manifest = load_manifest(store, ref)
            if (manifest.step, manifest.code_version) != (self.step.name, self.step.version):
                return None
            if whole(store, ref):
                return Version(store, manifest, self.step.writes)
            log.warning("%s has lost parts; it is made anew from the version before it", ref)
            ref = before(store, manifest)
        return None

    def needs(self, store: Store) -> list[Ref]:
        """The versions that must stay while it runs: what it reads, what it may find made, what it goes on from."""
        found = [*(ref for refs in self.inputs.values() for ref in refs), self.ref]
        with suppress(InputError):  # a ref that holds no version's name keeps nothing
            found += filter(None, [resolve_name(store, self.dataset)])
        return found

    def changed(self, previous: Version | None, change: str) -> Job:
        """This job once it is known what it changes: its ``ref`` is the new version."""
        inputs = self.inputs | ({PREVIOUS: [previous.manifest.ref]} if previous else {})
        return replace(self, inputs=inputs, change=change)

    def open(self, store: Store) -> dict[str, list[Version]]:
        """The input versions, readable."""
        reads = self.step.reads
        return {n: [Version.open(store, ref, reads[n].schema) for ref in refs] for n, refs in self.inputs.items()}


def _sources(inputs: dict[str, list[str]]) -> set[Ref]:
    """The versions that these inputs name."""
    return {Ref.parse(name).of_rows for names in inputs.values() for name in names}


def plan(store: Store, step: Step, values: dict[str, Any], given: dict[str, list[str]] | None = None) -> Job:
    """Resolve ``given`` (input name -> dataset names, versions optional) and defaults into a :class:`Job`.

    Parameters that ``values`` leave out are as the operator's file has them, else as the step does.

    Raises:
        InputError: unknown input or parameter, a dataset that is not there, one whose rows are of another schema, one
            that would give its rows twice, or none where one is needed.
    """
    given = given or {}
    unknown = sorted(set(given) - set(step.reads))
    if unknown:
        raise InputError(f"{step.name} has no input {unknown[0]!r}; its inputs are: {', '.join(step.reads) or 'none'}")
    params = step.parse(usual(step) | values)
    dataset = step.output(params)
    try:
        Ref(dataset=dataset)
    except InputError as error:
        raise InputError(
            f"{step.name} would write {dataset!r}, which is no dataset name; change the parameter in it"
        ) from error
    _refuse_taken(store, step, dataset)
    refuse_none(step, params, given)
    inputs = resolve_inputs(store, step, params, given)
    params.check_inputs([name for name, refs in (given | inputs).items() if refs])
    _refuse_repeated(step, inputs)
    return Job(step, params, {name: refs for name, refs in inputs.items() if refs})


def _refuse_taken(store: Store, step: Step, dataset: str) -> None:
    """Refuse a dataset that lies where a version's name or rejects do."""
    parts = dataset.split("/")
    names = (ref_key("/".join(parts[:n]), parts[n]) for n in range(1, len(parts)))
    if LATEST in parts or parts[-1] == REJECTS_SUFFIX.strip("/") or any(map(store.exists, names)):
        raise InputError(
            f"{step.name} would write {dataset!r}, and that is the name of a version or of rejects of another dataset; "
            "change the parameter in it"
        )


def refuse_none(step: Step, params: StepParams, given: dict[str, list[str]]) -> None:
    """Refuse an input that names nothing, as of a variable that is not set, where the step needs it.

    Raises:
        InputError: there is one.
    """
    for name, read in step.read_with(params).items():
        refs = given.get(name)
        if refs == [] and not (read.optional or read.may_be_none) and (needed := read.defaults(params)):
            raise InputError(
                f"{step.name}: --input {name}= names nothing, and the step needs it; name a dataset there, or leave it "
                f"out to read {', '.join(needed)}"
            )


def _refuse_repeated(step: Step, inputs: dict[str, list[Ref]]) -> None:
    """Refuse two versions of one dataset where the output keeps all rows of both: a key has one row."""
    kept: dict[str, str] = {}
    for name in step.keeps:
        for ref in inputs.get(name, []):
            other = kept.setdefault(ref.dataset, f"{name}={ref}")
            if other != f"{name}={ref}":
                raise InputError(
                    f"{step.name} would keep the rows of {ref.dataset} twice, from {other} and {name}={ref}; name one"
                )


def resolve_inputs(
    store: Store, step: Step, params: StepParams, given: Mapping[str, list[str]]
) -> dict[str, list[Ref]]:
    """Input name -> the versions that it means: those given, else its defaults.

    Raises:
        InputError: one is not there, is named twice, or has rows of another schema.
    """
    found: dict[str, list[Ref]] = {}
    for name, read in step.read_with(params).items():
        found[name] = _resolve_input(store, step, name, read, params, given.get(name))
        if read.read_by and given.get(name) != []:
            readers = (load_manifest(store, ref).inputs.get(name, ()) for ref in found[read.read_by])
            datasets = dict.fromkeys(Ref.parse(text).dataset for texts in readers for text in texts)
            named = {ref.dataset: ref for ref in found[name]}
            meant = (named.get(dataset) or resolve_name(store, dataset) for dataset in datasets)
            found[name] = [ref for ref in meant if ref]
    return found


def _resolve_input(
    store: Store, step: Step, name: str, read: From, params: StepParams, given: list[str] | None
) -> list[Ref]:
    """Those given, else its defaults, of which an optional one may be missing."""
    names = given if given is not None else read.defaults(params)
    found = []
    for text in names:
        try:
            ref = resolve(store, Ref.parse(text))
        except InputError:
            if read.optional and given is None:
                continue
            raise
        expected = read.schema.name if read.schema else FILES
        actual = load_manifest(store, ref).rows_schema
        if actual != expected:
            raise InputError(f"{step.name}: input {name}={ref} holds {actual!r}; name a dataset of {expected!r}")
        if ref in found:
            raise InputError(f"{step.name}: input {name} names {ref} more than once; name it once")
        found.append(ref)
    return found
