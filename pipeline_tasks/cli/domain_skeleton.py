"""The files of a new domain: every key that is read, empty, with what it is for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import pipeline_tasks.domains
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.intents import FILE, NAME, TAKEN, Intent
from pipeline_tasks.synthesis.prompts import PromptSet

_FILES = Path(pipeline_tasks.domains.__file__).parent / "_skeleton"
_INTENTS = """\
# What a searcher of this domain can want. One table an intent, as many as there are; prompts/<intent>.toml holds its
# prompts. The first is meant where none is named.
"""
_PROMPTS = """\
# How an LLM is asked for queries of the intent {intent}. Give the examples different subjects, openings and answers: a
# small model copies what repeats.
"""
_EMPTY = {str: "", int: 0, float: 0.0, bool: False}


def write_skeleton(folder: Path, intents: Sequence[str]) -> None:
    """Write a domain with these intents to a new folder: what reads its files says which keys they have.

    Raises:
        InputError: the folder is there and not empty, or a name cannot be.
    """
    for name in (folder.name, *intents):
        if not NAME.fullmatch(name) or name in TAKEN:
            raise InputError(f"{name!r} is no name; take small letters, digits, - and _, a letter first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; name a new folder")
    shutil.copytree(_FILES, folder, dirs_exist_ok=True)
    tables = (f"[{intent}]\n{blank_toml(Intent)}" for intent in dict.fromkeys(intents))
    (folder / FILE).write_text("\n".join([_INTENTS, *tables]), encoding="utf-8")
    (folder / "prompts").mkdir()
    for intent in intents:
        text = f"{_PROMPTS.format(intent=intent)}\n{blank_toml(PromptSet)}"
        (folder / "prompts" / f"{intent}.toml").write_text(text, encoding="utf-8")


def blank_toml(model: type[BaseModel], table: str = "") -> str:
    """What ``model`` reads as TOML: a line for every key, its description before it, its default or nothing in it.

    Args:
        model: its fields are plain values, other models, or tuples of either.
        table: name of the table that it is in.
    """
    lines: list[str] = []
    tables: list[str] = []
    for name, field in model.model_fields.items():
        place = f"{table}.{name}" if table else name
        one, several = _model_in(field)
        if one is None:
            lines += [f"# {field.description}"] if field.description else []
            lines.append(f"{name} = {json.dumps(_value(field))}")
            continue
        head = f"[[{place}]]" if several else f"[{place}]"
        about = f"# {(one.__doc__ or '').splitlines()[0]}\n" if one.__doc__ else ""
        tables += [f"{about}{head}\n{blank_toml(one, place)}"] * (_least(field) if several else 1)
    return "\n".join(["".join(f"{line}\n" for line in lines), *tables] if lines else tables)


def _model_in(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The model that a field holds, if any, and whether it holds several."""
    kind: Any = field.annotation
    items = [item for item in get_args(kind) if isinstance(item, type) and issubclass(item, BaseModel)]
    if items:
        return items[0], True
    return (kind, False) if isinstance(kind, type) and issubclass(kind, BaseModel) else (None, False)


def _least(field: FieldInfo) -> int:
    return next((rule.min_length for rule in field.metadata if hasattr(rule, "min_length")), 1)


def _value(field: FieldInfo) -> Any:
    if not field.is_required():
        return field.get_default(call_default_factory=True)
    return _EMPTY.get(field.annotation, [])  # type: ignore[arg-type]
