"""The project's SQL, from the folder ``sql``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pipeline_tasks.core.errors import InputError


@cache
def script(name: str) -> str:
    """The text of the script ``name``, from the installed package or from a checkout.

    Raises:
        InputError: there is no such script.
    """
    places = [Path(__file__).parents[up] / "sql" / name for up in (1, 2)]
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise InputError(f"the script {name} is in neither of {', '.join(map(str, places))}; install the package again")
