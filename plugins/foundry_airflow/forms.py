"""Fields of a DAG's trigger form, made of the parameters that steps declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, Context, Param
from airflow.sdk.definitions.param import DagParam

from foundry_airflow.backends import EMPTY
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.parameters import default_of, usual
from pipeline_tasks.core.registry import get_step

BY_CHAT = ("llm", "context_tokens", "json_schema", "temperature", "concurrency", "max_run_usd", "max_run_tokens")
"""Parameters of a step that asks an LLM by chat: who, how, and what it may cost."""
LEVEL: dict[str, Any] = {"type": "string", "pattern": r"^(0\.\d*[1-9]|1\.0)$"}
"""Schema of a field for one level of difficulty, an alpha: above 0, and spelled as its dataset is, ``mtt/0.65``."""
_USUAL_LEVELS = [str(percent / 100) for percent in range(50, 100, 5)]
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


@dataclass(frozen=True)
class Form:
    """Fields of a DAG's trigger form for parameters of one step; a field left empty is the step's own default.

    A switch cannot be empty: it begins as that default.

    Attributes:
        params: field name -> field, for the DAG.
        fields: parameter of the step -> field name.
    """

    params: dict[str, Param]
    fields: dict[str, str]

    def values(self, dag: DAG) -> dict[str, DagParam]:
        """Parameters for :func:`step`."""
        return {parameter: dag.param(field) for parameter, field in self.fields.items()}


def form(
    name: str, *parameters: str, prefix: str = "", names: Mapping[str, str] = {}, empty: Mapping[str, str] = {}
) -> Form:
    """Form fields for some parameters of step ``name``: types, limits and descriptions are the step's own.

    They are called as the parameters are, behind a prefix, or as ``names`` has it. Left empty, one is the step's own
    default, or what the DAG makes of that, as ``empty`` has it.
    """
    schema = get_step(name).params.model_json_schema()["properties"]
    fields = {parameter: names.get(parameter, prefix + parameter) for parameter in parameters}
    made = {p: found for p in parameters if (found := _made(name, p)) is not None}
    known = {p: schema[p] | ({"choices": made[p], "default": made[p]} if p in made else {}) for p in parameters}
    of_file = usual(get_step(name))
    known |= {p: known[p] | {"default": of_file[p]} for p in parameters if p in of_file}
    of_many = {p: p in BY_CHAT for p in parameters}
    return Form({fields[p]: _field(name, known[p], empty.get(p, ""), of_many[p]) for p in parameters}, fields)


def fields(*forms: Form) -> dict[str, Param]:
    """The fields of several forms, in their order."""
    return {name: field for one in forms for name, field in one.params.items()}


def form_value(name: str, parameter: str, field: str = "", empty: str = EMPTY) -> str:
    """A template of what a run's field holds and, where it is left empty, of what the form then says.

    Args:
        name: the step whose default that is.
        parameter: of the step.
        field: where it is not called as the parameter is.
        empty: where the form says nothing; no other step's own default then stands in.
    """
    return f"{{{{ params.{field or parameter} or {default_of(get_step(name), parameter) or empty!r} }}}}"


def _made(name: str, parameter: str) -> Any:
    """A default that is found when it is wanted, such as the intents of the domain; None for any other."""
    field = get_step(name).params.model_fields[parameter]
    if field.default_factory is None or field.default_factory_takes_validated_data:
        return None
    return field.get_default(call_default_factory=True)


def _field(step_name: str, schema: dict[str, Any], empty: str, of_many: bool) -> Param:
    """``of_many``: of several steps, whose defaults may differ, so that the field may not show one of them."""
    schema = schema | next((kind for kind in schema.get("anyOf", ()) if kind["type"] != "null"), {})
    default, kind = schema.get("default"), schema["type"]
    known: dict[str, Any] = {k: v for k, v in schema.items() if k in _LIMITS}
    if kind == "boolean":
        if not of_many and isinstance(default, bool):
            return Param(default, type=kind, description=schema.get("description", ""), section=step_name)
        # Airflow draws a boolean that is null as a switch that is off.
        kind, default, known["enum"] = "string", str(default).lower(), [None, "true", "false"]
    means = empty or (_words(default) if default else "")
    note = f" (left empty: {means})" if means else ""
    if kind == "array":
        choices = schema.get("items", {}).get("enum") or schema.get("choices")
        known |= {"examples": list(choices)} if choices else {"items": {"type": "string"}}
    if "enum" in schema:
        known["enum"] = [None, *schema["enum"]]
    description = f"{schema.get('description', '')}{note}"
    return Param(None, type=["null", kind], description=description, section=step_name, **known)


class FieldOfRun(DagParam):
    """What a field holds in a run.

    A DAG is another version to Airflow when it is written down otherwise, and of mapped tasks it writes down what
    values say of themselves: this says no address in memory, which is another in each process.
    """

    def __init__(self, field: DagParam) -> None:
        super().__init__(field.current_dag, field._name, field._default)

    def __repr__(self) -> str:
        return f"params.{self._name}"


class Unless(FieldOfRun):
    """``value``, and None in a run whose field is on."""

    def __init__(self, field: DagParam, value: Any) -> None:
        super().__init__(field)
        self.value = value

    def resolve(self, context: Context) -> Any:
        """What it is in a run."""
        return None if super().resolve(context) else self.value

    def __repr__(self) -> str:
        return f"{self.value} unless {super().__repr__()}"


def of_run(value: Any) -> Any:
    """``value`` with every field in it as a :class:`FieldOfRun`."""
    if isinstance(value, DagParam):
        return value if isinstance(value, FieldOfRun) else FieldOfRun(value)
    if isinstance(value, dict):
        return {name: of_run(one) for name, one in value.items()}
    return [of_run(one) for one in value] if isinstance(value, list) else value


def only_fields(dag: DAG, names: Iterable[str]) -> None:
    """Do nothing where all ``names`` are fields of ``dag``'s form.

    Raises:
        InputError: one of them is none.
    """
    if unknown := sorted(set(names) - set(dag.params)):
        raise InputError(f"there is no field {unknown[0]!r}; the fields are: {', '.join(dag.params) or 'none'}")


def levels(chosen: list[str] | None, section: str, description: str, most: int | None = None) -> Param:
    """A field for levels of difficulty, ``most`` of them; it may stay empty where none is chosen for it."""
    kind: dict[str, Any] = {"type": "array", "minItems": 1} if chosen else {"type": ["null", "array"]}
    choice: dict[str, Any] = {"items": LEVEL, "uniqueItems": True, "examples": _USUAL_LEVELS} | (
        {"maxItems": most} if most else {}
    )
    return Param(chosen, section=section, description=description, **kind, **choice)


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
