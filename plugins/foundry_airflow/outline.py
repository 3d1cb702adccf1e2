"""The steps that a run of a DAG would have, with their parameters and inputs, found without Airflow's database.

``python -m foundry_airflow.outline DAGS DAG CONF`` prints them as JSON. Templates and conditions of the tasks are
rendered as in a run that is started by hand; Airflow's variables count as unset. What reads the store alone (which
versions, which values) is done, and of a step only the name of its output is passed on to those that read it.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from foundry_airflow.local_run import configure

if TYPE_CHECKING:
    from airflow.sdk import DAG

PLANNED = "planned"
"""A version that no store has begins with this: what an earlier step of the outline would write."""


def outline(dag: DAG, conf: dict[str, Any]) -> dict[str, Any]:
    """The steps of a run with the form fields ``conf``, in order, and the names of those that it skips.

    Raises:
        InputError: an unknown field or a wrong value, or what the run reads first is not in the store.
    """
    return _Outline(dag, _fields(dag, conf)).told()


def _fields(dag: DAG, conf: dict[str, Any]) -> dict[str, Any]:
    """Every field's value, as the form would check it."""
    from airflow.sdk.exceptions import ParamValidationError

    from foundry_airflow.forms import only_fields
    from pipeline_tasks.core.errors import InputError

    only_fields(dag, conf)
    found = {}
    for name in dag.params:
        field = dag.params.get_param(name)
        try:
            found[name] = field.resolve(_typed(field.schema, conf[name])) if name in conf else field.resolve()
        except ParamValidationError as error:
            raise InputError(f"{name}={conf.get(name)!r}: {str(error).splitlines()[0]}") from error
    return found


def _typed(schema: dict[str, Any], value: Any) -> Any:
    """A word of a command line as a field of another type reads it."""
    kinds = schema.get("type", "string")
    if not isinstance(value, str) or "string" in ([kinds] if isinstance(kinds, str) else kinds):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


class _Outline:
    """Goes through the tasks of a DAG in the order of its file, in which every task comes after those that it reads."""

    def __init__(self, dag: DAG, fields: dict[str, Any], before: Sequence[dict[str, Any]] = ()) -> None:
        self._dag, self._made = dag, {}  # type: tuple[DAG, dict[tuple[str, str], Any]]
        run = SimpleNamespace(run_type="manual", partition_key=None, conf={})
        unset = SimpleNamespace(get=lambda name, default=None: default)
        self._context = {
            "params": fields,
            "dag_run": run,
            "ds": f"{datetime.now(UTC):%Y-%m-%d}",
            "var": SimpleNamespace(value=unset),
            "ti": SimpleNamespace(xcom_pull=lambda task_ids, key="return_value": self._made.get((task_ids, key))),
        }
        self._steps = [*before]
        self._skipped: list[str] = []
        self._starts: dict[str, str] = {}

    def told(self) -> dict[str, Any]:
        for task in self._dag.tasks:
            read = getattr(task, "partial_kwargs", vars(task)).get
            expanded: Any = task.expand_input.value if hasattr(task, "expand_input") else {}
            kind = getattr(task, "operator_class", type(task)).__name__
            if kind in _KINDS and "group" not in expanded:
                _KINDS[kind](self, task.task_id, read, expanded)
        return {"steps": self._steps, "skipped": self._skipped}

    def versions(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """What the run reads first."""
        from foundry_airflow import paths
        from foundry_airflow.operators import open_store

        found = paths.read(open_store(), read("paths"), self._rendered(read("named")), dict(self._starts))
        self._made |= {(task_id, key): refs for key, refs in found.items()}

    def refresh(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """The steps of ``corpus_refresh`` where a source is given; what they would write is read after it."""
        from foundry_airflow.operators import SKIPS

        source, name = self._rendered(read("source")), read("trigger_dag_id")
        if source in SKIPS:
            return
        dag = read_dag(Path(self._dag.fileloc).parent, name)
        told = _Outline(dag, _fields(dag, {"source": source}), self._steps).told()
        self._steps = told["steps"]
        self._skipped += told["skipped"]
        self._starts |= {one["name"].partition("@")[0]: one["name"] for one in self._steps}

    def named(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """What a step reads by its parameters, of what there is and of what is to come."""
        from foundry_airflow.operators import open_store
        from foundry_airflow.paths import named_among

        values, versions = self._rendered(read("values")), self._rendered(read("versions"))
        found = named_among(open_store(), read("step"), values, read("reads"), versions)
        self._made[task_id, "return_value"] = found

    def stages(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """The stages of models that are there; of one that is to come, that alone."""
        from foundry_airflow.operators import flat, open_store
        from foundry_airflow.paths import stages
        from pipeline_tasks.core.errors import InputError

        models = [model for model in flat(self._rendered(read("models"))) if model]
        if not models:
            raise InputError("no model is named; set one of the fields, as a run by hand has to")
        found = [[model] if f"@{PLANNED}." in model else stages(open_store(), model) for model in models]
        self._made[task_id, "return_value"] = list(dict.fromkeys(ref for refs in found for ref in refs))

    def each(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """The values of one parameter."""
        from foundry_airflow.inputs import once

        items = once(self._rendered(read("items")))
        self._made[task_id, "return_value"] = [{read("name"): item} for item in items]

    def publish(self, task_id: str, read: Callable[..., Any], _: Any) -> None:
        """The last of some versions."""
        made = [version for version in self._rendered(read("versions")) if version]
        self._made[task_id, "return_value"] = made[-1] if made else None

    def step(self, task_id: str, read: Callable[..., Any], expanded: dict[str, Any]) -> None:
        """A step, or one for each value of a parameter."""
        rendered = {name: self._rendered(read(name)) for name in ("inputs", "values", "only_if")}
        work = {"step": read("step"), "otherwise": read("otherwise")} | rendered
        if "each" in expanded:
            many = self._rendered(expanded["each"])
            self._made[task_id, "return_value"] = [self._asked(work | {"each": one}) for one in many]
            if not many:
                self._skipped.append(work["step"])
        else:
            self._made[task_id, "return_value"] = self._asked(work)

    def _asked(self, work: dict[str, Any]) -> str | None:
        """Note the step with what it gets; the name of its output, or None where the run skips it."""
        from airflow.sdk.exceptions import AirflowSkipException

        from foundry_airflow.operators import PlannedOperator
        from pipeline_tasks.core.registry import get_step

        operator = PlannedOperator(task_id=PLANNED, **work)
        try:
            given = operator.given()
        except AirflowSkipException:
            self._skipped.append(work["step"])
            return None
        step, values = get_step(work["step"]), operator.parameters()
        name = f"{step.output(step.parse(values))}@{PLANNED}.{len(self._steps)}"
        self._steps.append({"step": step.name, "values": values, "inputs": given, "name": name})
        return name

    def _rendered(self, value: Any) -> Any:
        """``value`` as a run has it: outputs of tasks, fields and templates in place."""
        from airflow.sdk import XComArg
        from airflow.sdk.definitions.param import DagParam

        if isinstance(value, XComArg):
            ((operator, key),) = value.iter_references()
            return self._made.get((operator.task_id, key))
        if isinstance(value, DagParam):
            return value.resolve(self._context)  # type: ignore[arg-type]
        if isinstance(value, str):
            return self._dag.get_template_env().from_string(value).render(self._context)
        if isinstance(value, dict):
            return {name: self._rendered(item) for name, item in value.items()}
        return [self._rendered(item) for item in value] if isinstance(value, (list, tuple)) else value


_KINDS: dict[str, Callable[[_Outline, str, Callable[..., Any], Any], None]] = {
    "RefreshOperator": _Outline.refresh,
    "VersionsOperator": _Outline.versions,
    "NamedOperator": _Outline.named,
    "StagesOperator": _Outline.stages,
    "EachOperator": _Outline.each,
    "PublishOperator": _Outline.publish,
    "StepOperator": _Outline.step,
}


def read_dag(folder: Path, name: str) -> DAG:
    """The DAG of the file ``name``."""
    found = runpy.run_path(str(folder / f"{name}.py"))
    from airflow.sdk import DAG

    return next(value for value in found.values() if isinstance(value, DAG) and value.dag_id == name)


def main() -> None:
    """Entry point: the outline, or what is wrong with the question, on the last line."""
    folder, name, conf = sys.argv[1:]
    with TemporaryDirectory(prefix="foundry-outline-") as home:
        configure(Path(home), Path(folder))
        from pipeline_tasks.core.errors import FoundryError

        try:
            told = outline(read_dag(Path(folder), name), json.loads(conf))
        except FoundryError as error:
            told = {"error": str(error)}
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
