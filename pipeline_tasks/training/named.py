"""Parts of a training that are one file each, known by the file's name: whoever adds a file adds one."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, computed_field

from pipeline_tasks.core.codelock.closure import meaning
from pipeline_tasks.core.errors import InputError


class Named(BaseModel):
    """Base of them: its fields are its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    code: ClassVar[str]
    """A hash of what its file said when it was imported, whatever it says since: that is what runs."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Read the file while it is being imported."""
        cls.code = meaning(inspect.getsource(sys.modules[cls.__module__]))

    def __getstate__(self) -> dict[Any, Any]:
        """With what runs here."""
        return super().__getstate__() | {"code": self.code}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """In another process, which imported the file later, or one of its own.

        Raises:
            InputError: what runs there is not the same.
        """
        if state.pop("code") != self.code:
            file = sys.modules[type(self).__module__].__file__
            raise InputError(f"{file} changed since this run began: start the run again")
        super().__setstate__(state)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def name(self) -> str:
        """That of its file."""
        return type(self).__module__.rpartition(".")[2]

    def identity(self) -> dict[str, Any]:
        """Parameters, and a hash of what its file says: its part of the id of a model that it trained."""
        inner = {field: value.identity() for field, value in self if isinstance(value, Named)}
        return self.model_dump(mode="json") | {"code": self.code} | inner


def without_code(identity: Any) -> Any:
    """What to read for what has this identity, or for a mapping with such in it."""
    if not isinstance(identity, Mapping):
        return identity
    named = "name" in identity and "code" in identity
    return {key: without_code(value) for key, value in identity.items() if not (named and key == "code")}


Kind = TypeVar("Kind", bound=Named)


def by_name(given: Any, kind: type[Kind], package: str, names: Sequence[str]) -> Kind:
    """What is called ``given``; its parameters beside ``name`` in a mapping or in JSON, defaults otherwise.

    Args:
        given: a name, a mapping, its JSON, or what is wanted already.
        kind: that it must be of.
        package: where the files are.
        names: of the files.

    Raises:
        ValueError: no file has that name, or the parameters are not its own.
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str):
        given = json.loads(given) if given.startswith("{") else {"name": given}
    if not isinstance(given, Mapping):
        raise ValueError(f"a {kind.__name__.lower()} is a name, or JSON of name and parameters, not {given!r}")
    parameters = dict(given)
    name = parameters.pop("name", None)
    if name not in names:
        raise ValueError(f"there is no {kind.__name__.lower()} {name!r}; there are {', '.join(names)}")
    module = import_module(f"{package}.{name}")
    kinds = [found for found in vars(module).values() if isinstance(found, type) and issubclass(found, kind)]
    [found] = [one for one in kinds if one.__module__ == module.__name__]
    return found.model_validate(parameters)
