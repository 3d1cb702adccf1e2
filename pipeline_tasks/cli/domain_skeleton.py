"""The files of a new domain: every key that is read, empty, with what it is for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import pipeline_tasks.domains
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.disk import writable
from pipeline_tasks.domains.intents import FILE, NAME, TAKEN, Intent
from pipeline_tasks.synthesis.prompting.prompts import PromptSet

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
        InputError: the folder is there and not empty or cannot be made, or a name cannot be.
    """
    for name in (folder.name, *intents):
        if not NAME.fullmatch(name) or name in TAKEN:
            raise InputError(f"{name!r} is no name; take small letters, digits, - and _, a letter first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; name a new folder")
    with writable(folder, "name another folder"):
        shutil.copytree(_FILES, folder, dirs_exist_ok=True)
    tables = (f"[{intent}]\n{blank_toml(Intent)}" for intent in dict.fromkeys(intents))
    (folder / FILE).write_text("\n".join([_INTENTS, *tables]), encoding="utf-8")
    (folder / "prompts").mkdir()
    for intent in intents:
        text = f"{_PROMPTS.format(intent=intent)}\n{blank_toml(PromptSet)}"
        (folder / "prompts" / f"{intent}.toml").write_text(text, encoding="utf-8")


def blank_toml(model: type[BaseModel], table: str = "") -> str:
    """What ``model`` reads as TOML: a line for every key, its description before it, its default or nothing in it.

    A table that may be left out stands in comments.

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
            value = _value(field)
            lines.append(f"# {name} =" if value is None else f"{name} = {json.dumps(value)}")
            continue
        head = f"[[{place}]]" if several else f"[{place}]"
        about = field.description or (one.__doc__ or "").partition("\n")[0]
        text = f"# {about}\n{head}\n{blank_toml(one, place)}"
        if not field.is_required():
            text = "".join(f"# {line}".rstrip() + "\n" for line in text.removeprefix("# ").splitlines())
        tables += [text] * (_least(field) if several else 1)
    return "\n".join(["".join(f"{line}\n" for line in lines), *tables] if lines else tables)


def _model_in(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The model that a field holds, if any, and whether it holds several."""
    kind: Any = field.annotation
    models = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)]
    return (models[0], get_origin(kind) is tuple) if models else (None, False)


def _least(field: FieldInfo) -> int:
    return next((rule.min_length for rule in field.metadata if hasattr(rule, "min_length")), 1)


def _value(field: FieldInfo) -> Any:
    if not field.is_required():
        return field.get_default(call_default_factory=True)
    return _EMPTY.get(field.annotation, [])  # type: ignore[arg-type]
