"""Operators that look things up in the store and at the run's parameters: which versions, which values, what is new."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context, TriggerRule, XComArg
from airflow.sdk.exceptions import AirflowSkipException

from foundry_airflow.asset_events import announce, started_by
from foundry_airflow.compared import compared
from foundry_airflow.operators import airflow_errors, flat, open_store
from foundry_airflow.paths import Where, input_from_outputs, read, stages
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step

if TYPE_CHECKING:
    from foundry_airflow.outline import OutlinedTask

Named = tuple[dict[str, Any], tuple[str, ...]] | tuple[dict[str, Any], tuple[str, ...], list[str]]


class VersionsOperator(BaseOperator):
    """Decides once for a whole run which versions it reads, so that a change midway cannot mix two of them.

    Of a dataset whose asset event started the run that is the version of the event, of others the latest.

    Args:
        paths: XCom key -> path (see :func:`foundry_airflow.paths.follow`), or what finds the versions in the store.
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

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """As in a run; of what an outlined step would write that is the version."""
        found = read(open_store(), task.argument("paths"), task.rendered("named"), task.starts)
        for key, refs in found.items():
            task.push(refs, key)


def pin_versions(after: BaseOperator | None = None, /, **paths: Where | Named) -> dict[str, Any]:
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
            return input_from_outputs(open_store(), self.step, self.values, self.reads, self.versions)

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """As in a run: of what there is and of what is to come."""
        values, versions = task.rendered("values"), task.rendered("versions")
        task.push(input_from_outputs(open_store(), task.argument("step"), values, task.argument("reads"), versions))


class StagesOperator(BaseOperator):
    """All stages of some trained models, and by the name of each parameter what they are compared with.

    Args:
        models: model datasets; where none is named, those whose asset events started the run, each as its newest event
            has it.
        named: ``backbone`` and ``systems`` of the form (see :func:`foundry_airflow.compared.compared`).
    """

    template_fields = ("models", "named")
    ui_color = "#f4efe6"

    def __init__(self, *, models: Any, named: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.models, self.named = models, named or {}

    def execute(self, context: Context) -> list[str]:
        """List them, oldest stage first."""
        named = [self.models] if isinstance(self.models, str) and self.models else self.models
        with airflow_errors():
            changed = started_by(context).values()
            if not (named or changed):
                raise InputError("no model is named and none has changed; set the field `size`")
            store = open_store()
            found = [stages(store, model) for model in named or changed]
            for name, value in compared(store, found, **self.named).items():
                context["ti"].xcom_push(name, value)
            return list(dict.fromkeys(chain.from_iterable(found)))

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """The stages of models that are there; of one that is to come, that alone, as if it began as its size does.

        Raises:
            InputError: no model is named.
        """
        models = [model for model in flat(task.rendered("models")) if model]
        if not models:
            raise InputError("no model is named; set one of the fields, as a run by hand has to")
        found = [[model] if task.is_planned(model) else stages(open_store(), model) for model in models]
        there = [refs for refs in found if not task.is_planned(refs[0])]
        fields = task.rendered("named")
        parameters = compared(open_store(), there, **fields) if there else {"size": models[-1].split("/")[1]} | fields
        for name, value in parameters.items():
            task.push(value, name)
        task.push(list(dict.fromkeys(chain.from_iterable(found))))


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

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """As in a run."""
        task.push([{task.argument("name"): item} for item in once(task.rendered("items"))])


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

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """The last version, or None."""
        made = [version for version in task.rendered("versions") if version]
        task.push(made[-1] if made else None)
