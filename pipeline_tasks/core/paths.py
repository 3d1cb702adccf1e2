"""Paths as people name them."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.core.errors import InputError


def absolute_path(named: str | Path) -> Path:
    """The absolute path that is ``named``, which may begin with ``~`` or ``~somebody``; nothing need be there.

    Raises:
        InputError: that is nobody who has a home here.
    """
    try:
        return Path(named).expanduser().absolute()
    except RuntimeError as error:
        raise InputError(f"{str(named)!r} is in the home of nobody here: name the whole path") from error
