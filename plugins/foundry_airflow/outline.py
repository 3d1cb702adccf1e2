"""The steps that a run of a DAG would have, with their parameters and inputs, found without Airflow's database.

``python -m foundry_airflow.outline DAGS DAG CONF`` prints them as JSON. Templates and conditions of the tasks are
rendered as in a run that is started by hand; Airflow's variables count as unset. What a task does here its operator
says, in a method ``outlined`` beside ``execute``: what reads the store alone (which versions, which values) is done,
and of a step only the name of its output is passed on to those that read it.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Sequence
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
    return _Outline(dag, _fields(dag, conf)).steps()


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
        self.folder = Path(dag.fileloc).parent
        self.noted = [*before]
        self.skipped: list[str] = []
        self.starts: dict[str, str] = {}
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

    def steps(self) -> dict[str, Any]:
        """What :func:`outline` gives.

        Raises:
            InputError: a task's operator does not say what it does in an outline.
        """
        from pipeline_tasks.core.errors import InputError

        for task in self._dag.tasks:
            operator: Any = getattr(task, "operator_class", type(task))
            if not hasattr(operator, "outlined"):
                raise InputError(
                    f"{self._dag.dag_id}: the task {task.task_id} is a {operator.__name__}, which does not say what it "
                    "does in an outline: give that class a method `outlined`"
                )
            operator.outlined(OutlinedTask(self, task))
        return {"steps": self.noted, "skipped": self.skipped}

    def push(self, task_id: str, value: Any, key: str) -> None:
        """Let later tasks read ``value`` as an output of a task."""
        self._made[task_id, key] = value

    def rendered(self, value: Any) -> Any:
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
            return {name: self.rendered(item) for name, item in value.items()}
        return [self.rendered(item) for item in value] if isinstance(value, (list, tuple)) else value


class OutlinedTask:
    """One task, mapped or not, as the method ``outlined`` of its operator gets it.

    Attributes:
        starts: dataset -> the version of it that paths of this run begin with.
        expanded: parameter -> what a mapped task is mapped over.
    """

    def __init__(self, outline: _Outline, task: Any) -> None:
        self._outline, self._task_id = outline, task.task_id
        self._arguments: dict[str, Any] = getattr(task, "partial_kwargs", vars(task))
        self.starts = dict(outline.starts)
        self.expanded: dict[str, Any] = task.expand_input.value if hasattr(task, "expand_input") else {}

    def argument(self, name: str) -> Any:
        """An argument of the operator, as the DAG's file has it."""
        return self._arguments.get(name)

    def rendered(self, name: str) -> Any:
        """An argument of the operator, or what the task is mapped over, as a run has it."""
        return self._outline.rendered(self.expanded.get(name, self.argument(name)))

    def push(self, value: Any, key: str = "return_value") -> None:
        """Let later tasks read ``value`` as an output of this one."""
        self._outline.push(self._task_id, value, key)

    @staticmethod
    def is_planned(version: str) -> bool:
        """Whether an earlier step of the outline would write it."""
        return f"@{PLANNED}." in version

    def note(self) -> None:
        """Put the step that it runs into the outline, or one for each value of the parameter that it is mapped over.

        Its output is the name of what the step would write, or None where the run skips it.
        """
        work = {name: self.rendered(name) for name in ("inputs", "values", "only_if")}
        work |= {name: self.argument(name) for name in ("step", "otherwise")}
        if "each" not in self.expanded:
            self.push(self._add_step(work))
            return
        many = self.rendered("each")
        self.push([self._add_step(work | {"each": one}) for one in many])
        if not many:
            self._outline.skipped.append(work["step"])

    def _add_step(self, work: dict[str, Any]) -> str | None:
        from airflow.sdk.exceptions import AirflowSkipException

        from foundry_airflow.operators import PlannedOperator
        from pipeline_tasks.core.registry import get_step

        operator, steps = PlannedOperator(task_id=PLANNED, **work), self._outline.noted
        try:
            inputs = operator.input_versions()
        except AirflowSkipException:
            self._outline.skipped.append(operator.step)
            return None
        step, values = get_step(operator.step), operator.parameters()
        name = f"{step.output(step.parse(values))}@{PLANNED}.{len(steps)}"
        steps.append({"step": step.name, "values": values, "inputs": inputs, "name": name})
        return name

    def run_before(self, dag_id: str, fields: dict[str, Any]) -> None:
        """Put the steps of another DAG's run here; what they would write is read after it."""
        outline = self._outline
        dag = read_dag(outline.folder, dag_id)
        before = _Outline(dag, _fields(dag, fields), outline.noted).steps()
        outline.noted = before["steps"]
        outline.skipped += before["skipped"]
        outline.starts |= {one["name"].partition("@")[0]: one["name"] for one in outline.noted}


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
            answer = outline(read_dag(Path(folder), name), json.loads(conf))
        except FoundryError as error:
            answer = {"error": str(error)}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
