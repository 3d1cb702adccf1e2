"""The JSON files of a model's folder, of which none is trusted to be what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError

LONGEST = 1 << 20
"""A number for 'no limit', where files say a huge one."""


def modules_of(folder: Path) -> list[tuple[str, str]]:
    """The kind and the path of each module of a sentence-transformers folder.

    Raises:
        InputError: its list of modules is none.
    """
    path = folder / "modules.json"
    modules = _read(path)
    if not isinstance(modules, list) or not all(
        isinstance(one, dict) and isinstance(one.get("type"), str) for one in modules
    ):
        raise InputError(f"{path} is no list of modules: save or fetch the model again")
    return [(str(one["type"]).rsplit(".", 1)[-1], str(one.get("path") or "")) for one in modules]


def object_in(path: Path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        InputError: there is none.
    """
    found = _read(path)
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object: save or fetch the model again")
    return found


def optional_object(path: Path) -> dict[str, Any]:
    """As :func:`object_in`; empty where there is no such file."""
    return object_in(path) if path.is_file() else {}


def number_of(path: Path, config: dict[str, Any], name: str) -> int | None:
    """What the file at ``path`` says under a name, at most :data:`LONGEST`; None where it says nothing.

    Raises:
        InputError: it is no number.
    """
    found = config.get(name)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise InputError(f"{path}: {name} is {found!r}, and should be a number: save or fetch the model again")
    return None if found is None else int(min(found, LONGEST))


def lowers_case(normalizer: Any) -> bool:
    """Whether a step of a tokenizer's normalizer makes letters small."""
    if not isinstance(normalizer, dict):
        return False
    of_bert = normalizer.get("type") == "BertNormalizer" and normalizer.get("lowercase")
    steps = normalizer.get("normalizers") or ()
    return bool(of_bert) or normalizer.get("type") == "Lowercase" or any(map(lowers_case, steps))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"there is no {path}: name a registered model or a sentence-transformers folder") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}): save or fetch the model again") from error
