"""A power cut, as a disk may show it: what was not fsynced is there, or is not, or is there without its bytes.

Only calls of ``os.fsync`` are watched. One on a file makes its bytes safe, one on a folder its names. Whatever else
happened since is decided name by name and file by file, by chance.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """What of ``root`` would survive; everything there at the beginning does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[Path, dict[str, int]] = {}
        self._bytes: dict[int, bytes] = {}
        root.mkdir(parents=True, exist_ok=True)
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                self._names[path] = _inodes(path)
            else:
                self._bytes[path.stat().st_ino] = path.read_bytes()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take note of every fsync of this process until the end of the block."""
        real = os.fsync

        def fsync(handle: int) -> None:
            real(handle)
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not path.is_relative_to(self.root):
                return
            found = os.fstat(handle)
            if stat.S_ISDIR(found.st_mode):
                self._names[path] = _inodes(path)
            else:
                self._bytes[found.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()

        os.fsync = fsync
        try:
            yield
        finally:
            os.fsync = real

    def cut(self, chance: random.Random) -> None:
        """Leave in ``root`` what a power cut may leave there now."""
        held = {path.stat().st_ino: path for path in self.root.rglob("*")}
        content = {inode: path.read_bytes() for inode, path in held.items() if path.is_file()}
        after = self.root.with_name(f"{self.root.name}-after")
        self._rebuild(self.root, after, content, chance)
        shutil.rmtree(self.root)
        after.rename(self.root)

    def _rebuild(self, folder: Path, target: Path, content: dict[int, bytes], chance: random.Random) -> None:
        target.mkdir()
        before, now = self._names.get(folder, {}), _inodes(folder) if folder.is_dir() else {}
        for name in sorted(before.keys() | now.keys()):
            safe, last = before.get(name), now.get(name)
            inode = safe if safe == last or chance.random() < 0.5 else last
            if inode is None:
                continue
            if inode in content or inode in self._bytes:
                (target / name).write_bytes(self._left(inode, content, chance))
            elif (folder / name).is_dir():
                self._rebuild(folder / name, target / name, content, chance)

    def _left(self, inode: int, content: dict[int, bytes], chance: random.Random) -> bytes:
        """The bytes of a file: those that are safe, or what came later, cut short anywhere."""
        safe, last = self._bytes.get(inode), content.get(inode)
        if safe is not None and (last == safe or last is None or chance.random() < 0.5):
            return safe
        return (last or b"")[: chance.randrange(len(last or b"") + 1)]


def _inodes(folder: Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}
