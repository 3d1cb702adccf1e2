"""Operators that look things up in the store and at the run's parameters: which versions, which values, what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from airflow.sdk import BaseOperator, Context, TriggerRule, XComArg
from airflow.sdk.exceptions import AirflowSkipException

from foundry_airflow.backends import parameters_of
from foundry_airflow.operators import airflow_errors, announce, flat, open_store, started_by
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import for_a_form
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest, resolve
from pipeline_tasks.retrieval.judges import best_of

ARROW = " > "
OF_PAIRS = ("mtp > pairs > dm > needs > passages", "mtp > pairs > own > passages")
Starts = dict[str, str]
Where = str | Callable[[Store, Starts], list[str]]
Named = tuple[dict[str, Any], tuple[str, ...]] | tuple[dict[str, Any], tuple[str, ...], list[str]]


def follow(store: Store, path: str, starts: Starts | None = None) -> list[str]:
    """The versions at the end of ``path``: a dataset, then names of inputs or of datasets that it was made from.

    ``labelled > rankings > queries``: query embeddings behind the rankings that ``labelled`` was made from. A name with
    a star, ``labelled > rankings > embeddings/*``, may find none.

    Args:
        store: where they are.
        path: as above.
        starts: dataset -> the version that a path begins with. Of any other dataset that is the latest, which is added,
            so that all paths of one run begin with the same version.

    Raises:
        InputError: the dataset is not in the store, or was made from nothing of that name.
    """
    start, *names = path.split(ARROW)
    starts = {} if starts is None else starts
    if start not in starts:
        starts[start] = str(resolve(store, Ref.parse(start)))
    refs = [starts[start]]
    for name in names:
        sources = [source for ref in refs for source in load_manifest(store, Ref.parse(ref)).inputs.items()]
        refs = [ref for key, found in sources for ref in found if _is(name, key, ref)]
        if not refs and "*" not in name:
            known = ", ".join(sorted({key for key, _ in sources})) or "nothing"
            raise InputError(f"{path!r}: no {name!r} there; it was made from: {known}")
    return refs


def _is(name: str, key: str, ref: str) -> bool:
    return fnmatchcase(key, name) or fnmatchcase(Ref.parse(ref).dataset, name)


def best_rankings(store: Store, starts: Starts | None = None) -> list[str]:
    """The rankings of the first judge of every intent, behind ``labelled``: negatives come from these."""
    (labelled,) = follow(store, "labelled", starts)
    best = best_of(load_manifest(store, Ref.parse(labelled)).params["judges"])
    return [ref for model in best for ref in follow(store, f"labelled{ARROW}rankings/{model}", starts)]


def named_by(
    store: Store, name: str, values: dict[str, Any], inputs: list[str], starts: Starts, made: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The versions that step ``name`` reads as each of ``inputs`` where nobody gives it any but its parameters.

    Datasets that the run has yet to make, ``made``, are left out.

    Raises:
        InputError: one is not in the store, or the step cannot have these parameters.
    """
    step = get_step(name)
    with for_a_form():
        params = step.parse(parameters_of(step, values))
    datasets = {one: [name for name in step.reads[one].defaults(params) if name not in made] for one in inputs}
    return {
        one: [ref for dataset in found for ref in follow(store, dataset, starts)] for one, found in datasets.items()
    }


def named_among(store: Store, name: str, values: dict[str, Any], one: str, versions: Any) -> list[str]:
    """Of the outputs of tasks, some perhaps skipped, those that the parameters of step ``name`` name as ``one``."""
    starts = {Ref.parse(version).dataset: version for version in flat(versions)}
    return named_by(store, name, values, [one], starts)[one]


def passages_of_pairs(store: Store, starts: Starts | None = None) -> list[str]:
    """The passages that the pairs of ``mtp`` were written from, or that pairs of your own name; else the latest."""
    for path in OF_PAIRS:
        with suppress(InputError):
            if len(found := set(follow(store, path, starts))) == 1:
                return list(found)
    return follow(store, "passages", starts)


def stages(store: Store, model: str) -> list[str]:
    """The versions that ``model`` was trained through, the first one first, itself last."""
    refs = [str(resolve(store, Ref.parse(model)))]
    while init := load_manifest(store, Ref.parse(refs[0])).inputs.get("init"):
        refs = [*init, *refs]
    return refs


class VersionsOperator(BaseOperator):
    """Decides once for a whole run which versions it reads, so that a change midway cannot mix two of them.

    Of a dataset whose asset event started the run that is the version of the event, of others the latest.

    Args:
        paths: XCom key -> path (see :func:`follow`), or what finds the versions in the store.
        named: step -> its parameters in this run, those of its inputs that these name, and perhaps datasets that the
            run has yet to make.
    """

    template_fields = ("named",)
    ui_color = "#f4efe6"

    def __init__(self, *, paths: dict[str, Where], named: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.paths = paths
        self.named = named

    def execute(self, context: Context) -> None:
        """Push every list of versions under its key."""
        with airflow_errors():
            found = read(open_store(), self.paths, self.named, started_by(context))
        for key, refs in found.items():
            context["ti"].xcom_push(key, refs)


def read(store: Store, paths: dict[str, Where], named: dict[str, Any], starts: Starts) -> dict[str, list[str]]:
    """What a run reads: the versions of each path, and of what steps read by their parameters."""
    found = {key: path(store, starts) if callable(path) else follow(store, path, starts) for key, path in paths.items()}
    for name, (values, inputs, *made) in named.items():
        of_step = named_by(store, name, values, inputs, starts, *made)
        found |= {f"{name}.{one}": refs for one, refs in of_step.items()}
    return found


def given(after: BaseOperator | None = None, /, **paths: Where | Named) -> dict[str, Any]:
    """The versions that this run reads, by name: the outputs of a task ``versions``, the first one, or that ``after``.

    It waits for what it is ``after``, which may be skipped. A step's name, with its parameters and those of its inputs
    that tasks of the run make, gives all others: ``finetune=(values, ("triplets", "init"))`` a dictionary of these. A
    third item are datasets that the run makes and these may name: :class:`NamedOperator` adds them.
    """
    routes: dict[str, Where] = {}
    named: dict[str, Any] = {}
    for key, path in paths.items():
        if isinstance(path, tuple):
            values, made, *later = path
            named[key] = [values, [one for one in get_step(key).reads if one not in made], *later]
        else:
            routes[key] = path
    operator = VersionsOperator(task_id="versions", paths=routes, named=named, trigger_rule=TriggerRule.NONE_FAILED)
    if after:
        after >> operator
    found: dict[str, Any] = {key: XComArg(operator, key) for key in routes}
    for key, (_, inputs, *_) in named.items():
        found[key] = {one: XComArg(operator, f"{key}.{one}") for one in inputs}
    return found


class NamedOperator(BaseOperator):
    """Which versions a step reads by its parameters, of what the run was given and of what its tasks made.

    Args:
        step: its name.
        values: its parameters in this run.
        reads: the input.
        versions: outputs of tasks, some perhaps skipped.
    """

    template_fields = ("values", "versions")
    ui_color = "#f4efe6"

    def __init__(self, *, step: str, values: dict[str, Any], reads: str, versions: Any, **kwargs: Any) -> None:
        super().__init__(**{"trigger_rule": TriggerRule.NONE_FAILED} | kwargs)
        self.step = step
        self.values = values
        self.reads = reads
        self.versions = versions

    def execute(self, context: Context) -> list[str]:
        """List them, as they are named."""
        with airflow_errors():
            return named_among(open_store(), self.step, self.values, self.reads, self.versions)


class StagesOperator(BaseOperator):
    """All stages of some trained models.

    Args:
        models: model datasets; where none is named, those whose asset events started the run, each as its newest event
            has it.
    """

    template_fields = ("models",)
    ui_color = "#f4efe6"

    def __init__(self, *, models: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models = models

    def execute(self, context: Context) -> list[str]:
        """List them, oldest stage first."""
        named = [self.models] if isinstance(self.models, str) and self.models else self.models
        with airflow_errors():
            changed = started_by(context).values()
            if not (named or changed):
                raise InputError("no model is named and none has changed; set the field `size`")
            store = open_store()
            return list(dict.fromkeys(ref for model in named or changed for ref in stages(store, model)))


class EachOperator(BaseOperator):
    """One mapped task's parameters per value of a run parameter.

    Args:
        name: the step's parameter.
        items: its values, or lists of them, or None.
    """

    template_fields = ("items",)
    ui_color = "#f4efe6"

    def __init__(self, *, name: str, items: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.items = items

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Every value once, in order."""
        return [{self.name: item} for item in once(self.items)]


def once(items: Iterable[Any] | None) -> list[Any]:
    """Every value once, in order: of those that are given, or of the lists that are."""
    lists = [item if isinstance(item, list) else [item] for item in items or () if item is not None]
    return list(dict.fromkeys(chain.from_iterable(lists)))


class PublishOperator(BaseOperator):
    """Emits the asset event of the last of several versions that was made, for those who wait for the final one.

    Args:
        versions: outputs of steps, some perhaps skipped.
    """

    template_fields = ("versions",)
    ui_color = "#f4efe6"

    def __init__(self, *, versions: list[Any], **kwargs: Any) -> None:
        super().__init__(**{"trigger_rule": TriggerRule.NONE_FAILED} | kwargs)
        self.versions = versions

    def execute(self, context: Context) -> str:
        """Announce it."""
        made = [version for version in self.versions if version]
        if not made:
            raise AirflowSkipException("no version was made")
        announce(context, self.outlets, Ref.parse(made[-1]))
        return made[-1]
