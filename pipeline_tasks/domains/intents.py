"""What searchers want: the intents of a domain, read from its ``intents.toml``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline_tasks.core.errors import InputError

FILE = "intents.toml"
TAKEN = {
    "any": "whoever judges all intents that have no judges of their own",
    "average": "the mean over intents",
    "corpus": "what a model puts before passages, in files of others",
    "document": "what a model puts before passages, in files of others",
    "passage": "what a model puts before passages",
    "query": "what a model puts before queries of every intent",
}
"""What an intent cannot be called, because it means something else beside names of intents."""
NAME = re.compile(r"[a-z][a-z0-9_-]*")
_REMEDY = {
    "missing": "is missing; write it",
    "extra_forbidden": "is no key of such a file; take it away",
    "string_too_short": "is empty; write it",
    "too_short": "has too few items; write more",
}

T = TypeVar("T")


class Intent(BaseModel):
    """One search intent: what its searcher wants, and what its queries and positive passages look like."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    definition: str = Field(min_length=1, description="what its searcher has and wants, in one sentence")
    instruction: str = Field(min_length=1, description="put before a query when it is encoded")
    query: str = Field(min_length=1, description="what its queries look like")
    positive: str = Field(min_length=1, description="what the passages look like that answer them")


def load_intents(domain: Path) -> dict[str, Intent]:
    """The intents of the domain in the folder ``domain``, in the order of its ``intents.toml``.

    Raises:
        InputError: the file is missing, is not TOML, lacks a field, has no intent or one with a name that cannot be.
    """
    path = domain / FILE
    found = read_toml(path, dict[str, Intent])
    if not found:
        raise InputError(f"{path} has no intent; add a table: [question]")
    for name in found:
        if name in TAKEN:
            raise InputError(f"{path}: no intent is called {name!r}, which is {TAKEN[name]}; choose another name")
        if not NAME.fullmatch(name):
            raise InputError(f"{path}: {name!r} is no name; take small letters, digits, - and _, a letter first")
    return found


def first_intent(domain: Path) -> str:
    """The intent that is meant where none is named."""
    return next(iter(load_intents(domain)))


def check_known(domain: Path, *names: str) -> None:
    """That the domain in the folder ``domain`` has the intents of these names.

    Raises:
        InputError: it has not.
    """
    known = load_intents(domain)
    for name in names:
        if name not in known:
            raise InputError(f"no intent is called {name!r}; the domain has {', '.join(known)}")


def read_toml(path: Path, kind: type[T]) -> T:
    """The TOML file ``path``, checked against the type ``kind``.

    Raises:
        InputError: the file is missing, is not TOML, or does not fit ``kind``; all that does not is named.
    """
    try:
        return TypeAdapter(kind).validate_python(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; a domain has one such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        raise InputError(f"{path}: {complaints(error)}") from error


def complaints(error: ValidationError) -> str:
    """Every key that is wrong and what to do about it, in one line."""
    found, wrong = [], [one["loc"] for one in error.errors()]
    for one in error.errors():
        # Items that are wrong themselves are no items to pydantic: where they are mended there may be enough.
        if one["type"] == "too_short" and any(at[: len(one["loc"])] == one["loc"] != at for at in wrong):
            continue
        key = ".".join(str(part) for part in one["loc"]) or "the file"
        found.append(f"{key} {_REMEDY.get(one['type'], 'is wrong (' + one['msg'] + '); correct it')}")
    return "; ".join(found)
