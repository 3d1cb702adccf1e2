"""Copies of immutable objects on this machine's disk, up to a size; shared by all its processes.

A copy appears whole, by a rename after its bytes are on the disk, and is read-only. When the copies exceed the limit,
those unused for longest go, but none that was asked for within the last hour: somebody may be about to open it. So the
limit may be exceeded by what one hour of work reads.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from pipeline_tasks.core import durable

log = logging.getLogger(__name__)
IN_USE_S = 3600.0
_SLACK = 16


class Cache:
    """Files below ``folder / part`` for each of ``parts``, named by key.

    Args:
        folder: where they are.
        parts: the folders of keys that it holds and may drop.
        limit_bytes: what they may come to.
    """

    def __init__(self, folder: Path, parts: tuple[str, ...], limit_bytes: int) -> None:
        self.folder, self.parts, self.limit_bytes = folder, parts, limit_bytes
        self._unseen = limit_bytes

    def get(self, key: str) -> Path | None:
        """The copy of ``key``, which now counts as used; None where there is none."""
        path = self.folder / key
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        return path

    def put(self, key: str, path: Path, *, used: bool = True) -> Path:
        """Make the local file ``path``, which is consumed, the copy of ``key``; one that is not used may go at once."""
        target = self.folder / key
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o444)
        size, now = path.stat().st_size, time.time()
        os.utime(path, (now, now if used else now - IN_USE_S))
        self._unseen += size
        durable.sync(path)
        path.replace(target)
        if self._unseen > self.limit_bytes / _SLACK:
            self._unseen = 0
            self.trim(self.limit_bytes)
        return target

    def drop(self, key: str) -> None:
        """Forget the copy of ``key``; no error where there is none."""
        (self.folder / key).unlink(missing_ok=True)

    def trim(self, limit_bytes: int) -> int:
        """Drop the copies unused for longest until the rest is within ``limit_bytes``; returns the bytes freed."""
        now, held = time.time(), []
        for part in self.parts:
            for path in (self.folder / part).rglob("*"):
                try:
                    found = path.lstat()
                except FileNotFoundError:
                    continue
                if path.is_file():
                    held.append((found.st_mtime, found.st_size, path))
        over = sum(size for _, size, _ in held) - limit_bytes
        freed = 0
        for used, size, path in sorted(held):
            if freed >= over or used > now - IN_USE_S:
                break
            path.unlink(missing_ok=True)
            freed += size
        log.debug("cache %s: %d bytes freed of %d over the limit", self.folder, freed, max(over, 0))
        return freed
