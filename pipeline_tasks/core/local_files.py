"""Which files of this machine a run may read: any for the operator, for a form those below the operator's folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paths import absolute_path
from pipeline_tasks.core.settings import settings

_KERNEL = ("/proc", "/sys", "/dev")
"""What lies there is the machine's state, a process's environment among it, whatever folder leads to it."""
_FOR_A_FORM: ContextVar[bool] = ContextVar("for_a_form", default=False)


@contextmanager
def for_a_form() -> Iterator[None]:
    """Within the block parameters come from a form, in a process that is otherwise the operator's."""
    token = _FOR_A_FORM.set(True)
    try:
        yield
    finally:
        _FOR_A_FORM.reset(token)


def is_from_a_form() -> bool:
    """Whether somebody else than the operator gives the parameters."""
    return _FOR_A_FORM.get() or settings().caller == "form"


def may_read(path: Path) -> bool:
    """Whether this run may read what ``path`` leads to, links and dots followed; it need not be there."""
    if not is_from_a_form():
        return True
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that no file can have
        return False
    is_below = any(real.is_relative_to(root.resolve()) for root in settings().roots)
    return is_below and not any(real.is_relative_to(folder) for folder in _KERNEL)


def is_readable_file(path: Path) -> bool:
    """Whether there is a regular file that this run may read."""
    try:
        return may_read(path) and path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def named_path(text: str) -> Path | None:
    """The file or folder that ``text`` names; None where there is none, or none that this run may read."""
    try:
        path = absolute_path(text)
        return path if may_read(path) and (path.is_dir() or path.is_file()) else None
    except (OSError, InputError, ValueError):  # no such user; a name that no file can have
        return None


def where_to_name() -> str:
    """The end of a remedy: below which folders a form may name something; nothing for the operator."""
    if not is_from_a_form():
        return ""
    return f" below FOUNDRY_SOURCE_ROOTS, which names {', '.join(map(str, settings().roots)) or 'none'}"


def path_of(url: str) -> Path:
    """The path that a ``file:`` address names."""
    return Path(os.fsdecode(unquote_to_bytes(urlsplit(url).path)))
