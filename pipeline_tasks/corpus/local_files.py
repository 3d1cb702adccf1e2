"""Which files of this machine a run may read: any for the operator, for a form those below the operator's folders."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline_tasks.core.settings import settings

_KERNEL = ("/proc", "/sys", "/dev")
"""What lies there is the machine's state, a process's environment among it, whatever folder leads to it."""


def may_read(path: Path) -> bool:
    """Whether this run may read what ``path`` leads to, links and dots followed; it need not be there."""
    if settings().caller == "operator":
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


def path_of(url: str) -> Path:
    """The path that a ``file:`` address names."""
    return Path(unquote(urlsplit(url).path))
