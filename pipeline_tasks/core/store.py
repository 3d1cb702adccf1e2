"""Where bytes live. A store is a flat map from key to bytes with two promises.

1. What can be read is whole: a key appears with all its bytes or not at all.
2. ``create`` has exactly one winner per key.

Everything above (parts, manifests, memo, paid answers, events) is built on these alone, so that a folder and an object
store behave alike.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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

    def drop_scratch(self, name: str) -> None:
        """Forget that folder; no error where it is not."""

    def temporary(self, suffix: str = "") -> Path:
        """A fresh local file name, fit for :meth:`create_from`."""

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Wait until no other process of this machine is inside the same ``name``; one that is killed lets go."""


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
        """See :meth:`Store.read`."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def exists(self, key: str) -> bool:
        """See :meth:`Store.exists`."""
        return self._path(key).is_file()

    def create(self, key: str, data: bytes) -> bool:
        """See :meth:`Store.create`."""
        if self._path(key).exists():
            return False
        return self.create_from(key, self._write_temporary(data))

    def create_from(self, key: str, path: Path) -> bool:
        """See :meth:`Store.create_from`."""
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o644)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(path, target)
        except FileExistsError:
            os.utime(target)
            return False
        finally:
            path.unlink()
        return True

    def replace(self, key: str, data: bytes) -> None:
        """See :meth:`Store.replace`."""
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._write_temporary(data).replace(target)

    def delete(self, key: str) -> None:
        """See :meth:`Store.delete`."""
        self._path(key).unlink(missing_ok=True)

    def keys(self, prefix: str) -> Iterator[str]:
        """See :meth:`Store.keys`."""
        top = self._path(prefix)
        if not top.is_dir():
            return
        yield from sorted(str(p.relative_to(self.root)) for p in top.rglob("*") if p.is_file())

    def local_path(self, key: str) -> Path:
        """See :meth:`Store.local_path`."""
        path = self._path(key)
        if not path.is_file():
            raise InputError(f"{key} is missing from the store {self.root}; run the step that made it again")
        return path

    def scratch(self, name: str) -> Path:
        """See :meth:`Store.scratch`."""
        folder = self.root / "scratch" / name
        while not folder.is_dir():
            with suppress(FileExistsError):
                folder.mkdir(parents=True, exist_ok=True)
        return folder

    def drop_scratch(self, name: str) -> None:
        """See :meth:`Store.drop_scratch`."""
        shutil.rmtree(self.root / "scratch" / name, ignore_errors=True)

    def temporary(self, suffix: str = "") -> Path:
        """See :meth:`Store.temporary`."""
        folder = self.root / TEMPORARY
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=suffix)
        os.close(handle)
        return Path(name)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """See :meth:`Store.alone`."""
        path = self._path(f"locks/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with path.open("a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not _is_open_as(handle.fileno(), path):
                    continue
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return

    def _write_temporary(self, data: bytes) -> Path:
        path = self.temporary()
        with path.open("wb") as file:
            file.write(data)
        return path


def _is_open_as(handle: int, path: Path) -> bool:
    """Whether ``path`` still names the open file; a lock's holder deletes it, those who waited open a new one."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
