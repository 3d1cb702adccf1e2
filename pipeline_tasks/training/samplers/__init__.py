"""The samplers, one a file, known by the file's name: whoever adds a file adds a sampler."""

from __future__ import annotations

import pkgutil
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SerializeAsAny, WithJsonSchema

from pipeline_tasks.training.named import by_name
from pipeline_tasks.training.sampler import Sampler

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def sampler(given: Any) -> Sampler:
    """The sampler called ``given``; its parameters beside ``name`` in a mapping or in JSON, defaults otherwise.

    Raises:
        ValueError: no file has that name, or the parameters are not its own.
    """
    return by_name(given, Sampler, __name__, NAMES)


AnySampler = Annotated[
    SerializeAsAny[Sampler], BeforeValidator(sampler), WithJsonSchema({"type": "string"}, mode="validation")
]
"""A field that holds a sampler, and takes a name, or a name with parameters."""


def _static(given: Sampler) -> Sampler:
    """What is given.

    Raises:
        ValueError: it decides, which only the sampler of a training does.
    """
    if given.decides:
        raise ValueError(f"{given.name!r} decides while a model trains: name one that does not, such as temperature")
    return given


Static = Annotated[AnySampler, AfterValidator(_static)]
"""A field that holds a sampler whose probabilities are known before the training."""
