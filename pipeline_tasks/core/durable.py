"""What a power cut cannot undo: bytes are on the disk before a name leads to them, and the name before it is told.

A rename alone promises neither: after a cut the new name may lead to nothing, or to a file without its bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MANY = 1_000


def sync(path: Path) -> None:
    """Wait until the bytes of a file, or the names in a folder, are on the disk; no error where it is gone."""
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_tree(folder: Path) -> None:
    """:meth:`sync` for everything in ``folder``, and for itself."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def replace(fresh: Path, target: Path) -> None:
    """Give the file ``fresh`` the name ``target``, whatever had it before; both survive a power cut from now on."""
    sync(fresh)
    fresh.replace(target)
    sync(target.parent)


def make_folder(folder: Path) -> list[Path]:
    """Make ``folder`` and those above it; the folders that hold a new name by that."""
    holders, path = [], folder
    while not path.is_dir():
        path = path.parent
        holders.append(path)
    folder.mkdir(parents=True, exist_ok=True)
    return holders


def up_to(root: Path, folder: Path) -> list[Path]:
    """``folder`` and those above it, up to ``root``: what leads to a name in it."""
    return [folder, *(path for path in folder.parents if path.is_relative_to(root))]


class Later:
    """Folders that are synced together, each once however many names it gained."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Path, None] = {}

    def add(self, paths: Iterable[Path]) -> None:
        """These may wait for the next :meth:`settle`."""
        named = dict.fromkeys(paths)
        with self._lock:
            self._waiting.update(named)
            many = len(self._waiting) > _MANY
        if many:
            self.settle()

    def settle(self) -> None:
        """Return once all that waited is on the disk."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            for path in waiting:
                sync(path)
