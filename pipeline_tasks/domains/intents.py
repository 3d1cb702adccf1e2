"""What searchers want: the intents of a domain, read from its ``intents.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline_tasks.core.errors import InputError

T = TypeVar("T")


class Intent(BaseModel):
    """One search intent: what its searcher wants, and what its queries and positive passages look like."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    definition: str = Field(min_length=1)
    instruction: str = Field(min_length=1, description="put before a query when it is encoded")
    query: str = Field(min_length=1)
    positive: str = Field(min_length=1)


def load_intents(domain: Path) -> dict[str, Intent]:
    """The intents of the domain in the folder ``domain``, in the order of its ``intents.toml``.

    Raises:
        InputError: the file is missing, is not TOML, or lacks a field.
    """
    return read_toml(domain / "intents.toml", dict[str, Intent])


def read_toml(path: Path, kind: type[T]) -> T:
    """The TOML file ``path``, checked against the type ``kind``.

    Raises:
        InputError: the file is missing, is not TOML, or does not fit ``kind``.
    """
    try:
        return TypeAdapter(kind).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; a domain has one such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {field or 'the file'}: {first['msg']}; correct the file") from error
