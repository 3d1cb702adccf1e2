"""The store in a folder.

A power cut takes nothing that was told, but for work that is done again: the memo is not synced, and the names of
parts only together, before the next name that may lead to them. A part's own bytes are on the disk before its name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256, short_id
from pipeline_tasks.core.store.disk import files_below, is_open_as, not_lost, readable, space_in, writable
from pipeline_tasks.core.store.protocol import LOST, TEMPORARY, Entry, Pin, checked_key

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Names the running kernel, in containers too."""
_NO_KERNEL = uuid.uuid4().hex
_MAY_WAIT = ("objects/", "memo/")
_ATTEMPTS = 100


class LocalStore:
    """A store in a folder; safe for many processes on one file system."""

    packs = None  # files are read where they lie

    def __init__(self, root: Path) -> None:
        self.root = self.folder = Path(root).absolute()
        self.scratches = self.root / "scratch"
        self._later = durable.Later()
        self._certain: set[Path] = set()

    def __reduce__(self) -> tuple[type[LocalStore], tuple[Path]]:
        return LocalStore, (self.root,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __str__(self) -> str:
        return str(self.root)

    def _path(self, key: str) -> Path:
        return self.root / checked_key(key)

    def _written(self) -> AbstractContextManager[None]:
        return writable(f"the store {self.root}", "check FOUNDRY_STORE")

    def read(self, key: str) -> bytes | None:
        """See :meth:`Store.read`."""
        with readable(self.root), suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return self._path(key).read_bytes()
        return None

    def read_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """See :meth:`Store.read_all`."""
        return ((key, self.read(key)) for key in keys)

    def exists(self, key: str) -> bool:
        """See :meth:`Store.exists`."""
        with readable(self.root):
            return self._path(key).is_file()

    def present(self, keys: Iterable[str]) -> set[str]:
        """See :meth:`Store.present`."""
        return {key for key in keys if self.exists(key)}

    def rely_on(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.rely_on`; who wrote them may have made the folders above, too."""
        for folder in {self._path(key).parent for key in keys}:
            self._later.add(durable.up_to(self.root, folder))

    def create(self, key: str, data: bytes) -> bool:
        """See :meth:`Store.create`."""
        if self.exists(key):
            self.rely_on([key])
            self._later.settle()
            return False
        with self.temporary() as path:
            path.write_bytes(data)
            return self.create_from(key, path)

    def create_from(self, key: str, path: Path) -> bool:
        """See :meth:`Store.create_from`."""
        target = self._path(key)
        path.chmod(0o644)
        os.utime(path)
        durable.sync(path)
        holders = self._led_to(key, target)
        try:
            os.link(path, target)
        except FileExistsError:
            os.utime(target)
            return False
        finally:
            self._sync_names(key, holders)
        return True

    def _led_to(self, key: str, target: Path) -> list[Path]:
        """Folders that hold ``target`` once it is named; what a name leads to is on the disk before the name."""
        if not key.startswith(_MAY_WAIT):
            self._later.settle()
        folder, *above = durable.up_to(self.root, target.parent)
        holders = [*durable.make_folder(folder), folder, *(path for path in above if path not in self._certain)]
        self._certain.update(above)  # once: one that was killed may have made them and not put on the disk
        return holders

    def _sync_names(self, key: str, holders: Iterable[Path]) -> None:
        self._later.add(holders)
        if not key.startswith(_MAY_WAIT):
            self._later.settle()

    def replace(self, key: str, data: bytes) -> None:
        """See :meth:`Store.replace`."""
        target = self._path(key)
        with self.temporary() as path:
            path.write_bytes(data)
            holders = self._led_to(key, target)
            if not key.startswith(_MAY_WAIT):
                durable.sync(path)
            path.replace(target)
        self._sync_names(key, holders)

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """See :meth:`Store.swap`."""
        with self.alone(f"swap-{short_id(checked_key(key))}"):
            if expected := self.read(key) == old:
                self.replace(key, new)
            return expected

    def delete(self, key: str) -> None:
        """See :meth:`Store.delete`."""
        self.delete_all([key])

    def delete_all(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.delete_all`."""
        holders = {}
        for key in keys:
            path = self._path(key)
            path.unlink(missing_ok=True)
            holders[path.parent] = key
        for holder, key in holders.items():
            self._sync_names(key, [holder])

    def make_last(self, prefix: str) -> None:
        """See :meth:`Store.make_last`."""
        self._sync_names(prefix, (Path(folder) for folder, _, _ in os.walk(self._path(prefix))))

    def keys(self, prefix: str) -> Iterator[str]:
        """See :meth:`Store.keys`."""
        start = len(str(self.root)) + 1
        with readable(self.root):
            yield from sorted(entry.path[start:] for entry in files_below(self._path(prefix)))

    def entries(self, prefix: str) -> Iterator[Entry]:
        """See :meth:`Store.entries`."""
        start = len(str(self.root)) + 1
        with readable(self.root):
            for file in sorted(files_below(self._path(prefix)), key=lambda file: file.path):
                with suppress(FileNotFoundError):
                    found = file.stat()
                    yield Entry(file.path[start:], found.st_size, found.st_mtime)

    def sha256(self, key: str, *, here: bool = False) -> str | None:
        """See :meth:`Store.sha256`."""
        return file_sha256(self._path(key)) if self.exists(key) else None

    def local_path(self, key: str) -> Path:
        """See :meth:`Store.local_path`."""
        if not self.exists(key):
            raise InputError(f"{key} is missing from the store {self.root}; {LOST}")
        return self._path(key)

    def ranges(self, key: str, size_bytes: int) -> None:
        """See :meth:`Store.ranges`."""

    def copy_to(self, key: str, path: Path) -> None:
        """See :meth:`Store.copy_to`."""
        shutil.copyfile(self.local_path(key), path)

    def bring(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.bring`."""

    def drop_lost_copies(self) -> None:
        """See :meth:`Store.drop_lost_copies`; a folder has no copies."""

    def scratch(self, name: str) -> Path:
        """See :meth:`Store.scratch`."""
        folder, attempts = self._path(f"scratch/{name}"), 0
        while not folder.is_dir():
            attempts += 1  # another process may drop it meanwhile
            with self._written(), suppress(FileExistsError) if attempts < _ATTEMPTS else nullcontext():
                folder.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):
            os.utime(folder)  # in use again, however old what lies in it
        return folder

    def drop_scratch(self, name: str) -> None:
        """See :meth:`Store.drop_scratch`."""
        shutil.rmtree(self._path(f"scratch/{name}"), ignore_errors=True)

    @contextmanager
    def temporary(self, suffix: str = "") -> Iterator[Path]:
        """See :meth:`Store.temporary`."""
        folder = self.root / TEMPORARY
        with space_in(folder):
            with self._written():
                folder.mkdir(parents=True, exist_ok=True)
                handle, name = tempfile.mkstemp(dir=folder, suffix=suffix)
            os.fchmod(handle, 0o644)  # what leads to an object is read by whoever may read that
            os.close(handle)
            try:
                with not_lost(Path(name)):
                    yield Path(name)
            finally:
                Path(name).unlink(missing_ok=True)

    def now(self) -> float:
        """See :meth:`Store.now`."""
        with self.temporary() as path:
            return path.stat().st_mtime

    @contextmanager
    def pinned(self, name: str, data: bytes) -> Iterator[None]:
        """See :meth:`Store.pinned`; a pin is a locked file."""
        shown = self._path(f"pins/{name}")
        with self._written():
            shown.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as until_the_end:
            with self.temporary() as path:
                handle = until_the_end.enter_context(path.open("wb"))
                fcntl.flock(handle, fcntl.LOCK_EX)
                handle.write(data)
                handle.flush()
                os.link(path, shown)
            try:
                yield
            finally:
                shown.unlink(missing_ok=True)

    def pins_lasted(self) -> bool:
        """See :meth:`Store.pins_lasted`; a locked file tells for certain."""
        return True

    def pins(self) -> list[Pin]:
        """See :meth:`Store.pins`."""
        return [pin for key in self.keys("pins") if (pin := self.pin(key.removeprefix("pins/")))]

    def pin(self, name: str) -> Pin | None:
        """What the pin called ``name`` shows; one whose holder is dead goes."""
        path = self._path(f"pins/{name}")
        with suppress(FileNotFoundError), path.open("rb") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return Pin(handle.read(), os.fstat(handle.fileno()).st_mtime)
            path.unlink()
        return None

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """See :meth:`Store.alone`."""
        path = self._path(f"locks/{name}")
        while True:
            with self._written():
                path.parent.mkdir(parents=True, exist_ok=True)
                opened = path.open("a")
            with opened as handle:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not is_open_as(handle.fileno(), path):
                    continue
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return

    def holder(self) -> str:
        """Equal for two processes only where :meth:`alone` keeps them apart: one folder under one running kernel.

        The file ``machine`` does not tell alone: it is copied with its folder, and kernels that share the folder over a
        network may each keep locks of their own. Where the kernel has no name every process is a holder of its own.
        """
        self.create("machine", uuid.uuid4().hex.encode())
        found = self.root.stat()
        kernel = ""
        with suppress(OSError):
            kernel = BOOT_ID.read_text("ascii").strip()
        return digest(str(self.read("machine")), kernel or _NO_KERNEL, found.st_dev, found.st_ino)
