"""Parameters of steps where nobody gives any: as the steps declare, changed by one TOML file of the operator.

``FOUNDRY_PARAMETERS`` names the file. Its tables are called after steps; ``default`` is for every step that has a
parameter of that name::

    [default]
    llm = "gpt-5-mini"
    api = "chat"

    [write_needs]
    sample_rate = 0.2

So runs that nobody fills in a form for, on a schedule or after a change, ask the model that is meant. They are
parameters like any other: part of a version's identity, written in its manifest, and given to containers by value.
"""

from __future__ import annotations

import tomllib
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import DEFAULT, check_table, get_step, step_names
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Step


def usual(step: Step) -> dict[str, Any]:
    """What the operator's file says of the parameters of ``step``.

    Raises:
        InputError: the file cannot be read, or names a step or a parameter that there is not; it says what there is.
    """
    tables = of_installation()
    common = {name: value for name, value in tables.get(DEFAULT, {}).items() if name in step.params.model_fields}
    return common | tables.get(step.name, {})


def default_of(step: Step, parameter: str) -> Any:
    """A parameter of ``step`` that nobody gives: as the operator's file says, else as the step does.

    None where that depends on the others, or somebody has to give it.

    Raises:
        InputError: see :func:`usual`.
    """
    defaults, field = usual(step), step.params.model_fields[parameter]
    if parameter in defaults:
        return defaults[parameter]
    if field.is_required() or field.default_factory_takes_validated_data:
        return None
    return field.get_default(call_default_factory=True)


def of_installation() -> dict[str, dict[str, Any]]:
    """The tables of the operator's file; none where no file is named.

    Raises:
        InputError: see :func:`usual`.
    """
    path = settings().parameters
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"FOUNDRY_PARAMETERS={path} cannot be read: {error}") from error
    for name, values in found.items():
        check_table(str(path), name)
        if not isinstance(values, dict):
            raise InputError(f"{path}: {name} = {values!r} is no table: write [{name}] above its parameters")
        steps = step_names() if name == DEFAULT else (name,)
        known = {field for step in steps for field in get_step(step).params.model_fields}
        if unknown := sorted(values.keys() - known):
            of = "no step has" if name == DEFAULT else f"{name} has no"
            raise InputError(f"{path}: {of} parameter {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    return found
