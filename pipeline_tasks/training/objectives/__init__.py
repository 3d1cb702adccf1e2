"""The objectives, one a file, known by the file's name: whoever adds a file adds an objective."""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, WithJsonSchema

from pipeline_tasks.training.objective import Objective

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def objective(given: Any) -> Objective:
    """The objective called ``given``; its parameters beside ``name`` in a mapping or in JSON, defaults otherwise.

    Raises:
        ValueError: no file has that name, or the parameters are not its own.
    """
    if isinstance(given, Objective):
        return given
    if isinstance(given, str):
        given = json.loads(given) if given.startswith("{") else {"name": given}
    parameters = dict(given)
    name = parameters.pop("name", None)
    if name not in NAMES:
        raise ValueError(f"there is no objective {name!r}; there are {', '.join(NAMES)}")
    module = import_module(f"{__name__}.{name}")
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Objective)]
    [found] = [kind for kind in kinds if kind.__module__ == module.__name__]
    return found.model_validate(parameters)


AnyObjective = Annotated[
    SerializeAsAny[Objective], BeforeValidator(objective), WithJsonSchema({"type": "string"}, mode="validation")
]
"""A field that holds an objective, and takes a name, or a name with parameters."""
