"""A power cut, as a disk may show it: what was not fsynced is there, or is not, or is there without its bytes.

Only calls of ``os.fsync`` are watched. One on a file makes its bytes safe, one on a folder its names. Whatever else
happened since is decided name by name and file by file, by chance. Files are taken to be written once: what is safe of
one is how it begins, and bytes of another file that had its inode before are told by that.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """A name in a folder as it is safe: of which inode, and of a file the safe bytes (None: of a folder)."""

    inode: int
    data: bytes | None


class Disk:
    """What of ``root`` would survive; everything there at the beginning does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[Path, dict[str, Entry]] = {}
        self._bytes: dict[int, bytes] = {}
        root.mkdir(parents=True, exist_ok=True)
        self.settle()

    def settle(self) -> None:
        """All that is there now survives."""
        everything = [self.root, *self.root.rglob("*")]
        self._bytes = {path.stat().st_ino: path.read_bytes() for path in everything if path.is_file()}
        self._names = {path: self._listed(path) for path in everything if path.is_dir()}

    def _listed(self, folder: Path) -> dict[str, Entry]:
        with os.scandir(folder) as found:
            return {e.name: Entry(e.inode(), None if e.is_dir() else self._safe(Path(e.path))) for e in found}

    def _safe(self, path: Path) -> bytes:
        """The safe bytes of a file."""
        safe = self._bytes.get(path.stat().st_ino, b"")
        return safe if path.read_bytes().startswith(safe) else b""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take note of every fsync of this process until the end of the block; none is carried out, which is faster."""
        real = os.fsync

        def fsync(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not path.is_relative_to(self.root):
                return real(handle)
            found = os.fstat(handle)
            if stat.S_ISDIR(found.st_mode):
                self._names[path] = self._listed(path)
            else:
                self._bytes[found.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()

        os.fsync = fsync
        try:
            yield
        finally:
            os.fsync = real

    def cut(self, chance: random.Random) -> None:
        """Leave in ``root`` what a power cut may leave there now."""
        after = self.root.with_name(f"{self.root.name}-after")
        self._rebuild(self.root, after, chance)
        shutil.rmtree(self.root)
        after.rename(self.root)

    def _rebuild(self, folder: Path, target: Path, chance: random.Random) -> None:
        target.mkdir()
        before = self._names.get(folder, {})
        now = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
        for name in sorted(before.keys() | now.keys()):
            safe, path = before.get(name), now.get(name)
            if path and safe and path.stat().st_ino == safe.inode:
                is_there = True
            else:
                is_there = path is not None and chance.random() < 0.5
            if is_there and path and path.is_dir() or (not is_there and safe and safe.data is None):
                self._rebuild(folder / name, target / name, chance)
            elif is_there and path:
                (target / name).write_bytes(self._left(path, chance))
            elif safe and safe.data is not None:
                (target / name).write_bytes(safe.data)

    def _left(self, path: Path, chance: random.Random) -> bytes:
        """The bytes of a file: those that are safe, and of what came later some or all."""
        safe, last = self._safe(path), path.read_bytes()
        return last[: chance.choice([len(safe), chance.randint(len(safe), len(last)), len(last)])]
