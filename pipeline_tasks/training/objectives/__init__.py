"""The objectives, one a file, known by the file's name: whoever adds a file adds an objective."""

from __future__ import annotations

import pkgutil
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, WithJsonSchema

from pipeline_tasks.training.named import by_name
from pipeline_tasks.training.objective import Objective

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def objective(given: Any) -> Objective:
    """The objective called ``given``; its parameters beside ``name`` in a mapping or in JSON, defaults otherwise.

    Raises:
        ValueError: no file has that name, or the parameters are not its own.
    """
    return by_name(given, Objective, __name__, NAMES)


AnyObjective = Annotated[
    SerializeAsAny[Objective], BeforeValidator(objective), WithJsonSchema({"type": "string"}, mode="validation")
]
"""A field that holds an objective, and takes a name, or a name with parameters."""
