"""What each step may take: as its ``@step`` declares, changed by one TOML file of the operator.

``FOUNDRY_RESOURCES`` names the file. Its tables are called after steps; ``default`` is for every step::

    [default]
    retries = 5

    [finetune]
    memory_gib = 48
    gpus = 2
    timeout_minutes = 0

Every back-end, the DAGs, ``foundry steps`` and ``foundry doctor`` see the same. Nothing of it enters a
version, but whether a model is trained on a card.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import DEFAULT, check_table
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources, Step

HANDED_ON = "FOUNDRY_HANDED_RESOURCES"


class Table(BaseModel):
    """One table of the file; what it leaves out stays as it was."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    memory_gib: float | None = Field(None, gt=0, description="GiB that one run may use")
    more_memory_gib: float | None = Field(None, gt=0, description="GiB of one more run, where that was too little")
    timeout_minutes: float | None = Field(None, ge=0, description="minutes that one try may last; 0: no limit")
    gpus: int | None = Field(None, ge=0, description="cards of one run")
    nodes: int | None = Field(None, ge=1, description="nodes of a Ray cluster for one training, each with all that")
    retries: int | None = Field(None, ge=0, description="tries after the first one")


def resources_of(step: Step) -> Resources:
    """What ``step`` may take on this installation.

    Raises:
        InputError: the file cannot be read, or names a step, a field or a value that cannot be; it says what can.
            Or ``more_memory_gib`` is not more than ``memory_gib``, or several nodes are asked for what is no training.
    """
    tables = configured()
    changes = [tables[name].model_dump(exclude_none=True) for name in (DEFAULT, step.name) if name in tables]
    found = replace(step.resources, **{name: value for change in changes for name, value in change.items()})
    if found.more_memory_gib is not None and found.more_memory_gib <= found.memory_gib:
        raise InputError(
            f"{settings().resources or '@step'}: {step.name}.more_memory_gib = {found.more_memory_gib:g} is not more "
            f"than its memory_gib = {found.memory_gib:g}; raise it or leave it out"
        )
    if found.nodes > 1 and not (step.kind == "reduce" and step.resources.image == "gpu" and step.resources.resumes):
        raise InputError(
            f"{settings().resources}: {step.name}.nodes = {found.nodes}, and one run of {step.name} has one node: give "
            "nodes to a step that trains, in its own table"
        )
    return found


def configured() -> dict[str, Table]:
    """The tables of the operator's file, by name; none where no file is named.

    Raises:
        InputError: see :func:`resources_of`.
    """
    path, inherited = settings().resources, settings().handed_resources
    try:
        if inherited:
            return {name: _table(HANDED_ON, name, values) for name, values in json.loads(inherited).items()}
        found = tomllib.loads(path.read_text("utf-8")) if path else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"FOUNDRY_RESOURCES={path} cannot be read: {error}") from error
    return {name: _table(str(path), name, values) for name, values in found.items()}


def handed_on(step: str) -> dict[str, str]:
    """The variable by which a step on another machine, which has no such file, is told what the file says of it."""
    tables = {name: table.model_dump(exclude_none=True) for name, table in configured().items()}
    found = {name: table for name, table in tables.items() if name in (DEFAULT, step)}
    return {HANDED_ON: json.dumps(found)} if found else {}


def _table(path: str, name: str, values: Any) -> Table:
    check_table(path, name)
    try:
        return Table.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([name, *map(str, first["loc"])])
        allowed = ", ".join(Table.model_fields)
        raise InputError(
            f"{path}: {where} = {first['input']!r}: {first['msg']}; a table may have: {allowed}"
        ) from error
