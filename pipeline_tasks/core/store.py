"""Where bytes live. A store is a flat map from key to bytes with two promises.

1. What can be read is whole: a key appears with all its bytes or not at all.
2. ``create`` has exactly one winner per key.

Everything above (parts, manifests, memo, paid answers, events) is built on these alone, so that a folder and an object
store behave alike.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pipeline_tasks.core.errors import InputError

TEMPORARY = "tmp"


class Store(Protocol):
    """The promises above."""

    def read(self, key: str) -> bytes | None:
        """The bytes of ``key``, or None."""

    def exists(self, key: str) -> bool:
        """Whether ``key`` can be read."""

    def create(self, key: str, data: bytes) -> bool:
        """Write ``key`` unless it exists; True for the one writer that made it."""

    def create_from(self, key: str, path: Path) -> bool:
        """Like :meth:`create` with a local file's bytes; the file is consumed."""

    def replace(self, key: str, data: bytes) -> None:
        """Write ``key``, replacing what is there in one move."""

    def delete(self, key: str) -> None:
        """Forget ``key``; no error where it is not."""

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys below ``prefix`` (a folder), sorted."""

    def local_path(self, key: str) -> Path:
        """A local, read-only file with the bytes of an immutable ``key``."""

    def scratch(self, name: str) -> Path:
        """A local folder for work in progress that survives a kill."""

    def temporary(self, suffix: str = "") -> Path:
        """A fresh local file name, fit for :meth:`create_from`."""


class LocalStore:
    """A store in a folder; safe for many processes on one file system."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).absolute()

    def _path(self, key: str) -> Path:
        path = self.root / key
        if ".." in Path(key).parts or Path(key).is_absolute():
            raise InputError(f"store key {key!r} leaves the store; use a key below it")
        return path

    def read(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def create(self, key: str, data: bytes) -> bool:
        if self._path(key).exists():
            return False
        return self.create_from(key, self._write_temporary(data))

    def create_from(self, key: str, path: Path) -> bool:
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o644)
        try:
            os.link(path, target)
        except FileExistsError:
            os.utime(target)
            return False
        finally:
            path.unlink()
        return True

    def replace(self, key: str, data: bytes) -> None:
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._write_temporary(data).replace(target)

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def keys(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix)
        if not top.is_dir():
            return
        yield from sorted(str(p.relative_to(self.root)) for p in top.rglob("*") if p.is_file())

    def local_path(self, key: str) -> Path:
        path = self._path(key)
        if not path.is_file():
            raise InputError(f"{key} is missing from the store {self.root}; run the step that made it again")
        return path

    def scratch(self, name: str) -> Path:
        folder = self.root / "scratch" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def temporary(self, suffix: str = "") -> Path:
        folder = self.root / TEMPORARY
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=suffix)
        os.close(handle)
        return Path(name)

    def _write_temporary(self, data: bytes) -> Path:
        path = self.temporary()
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path
