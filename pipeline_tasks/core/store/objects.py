"""The immutable objects of a bucket, each by itself or in a pack, and the copies of them on this machine."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import file_sha256, short_id
from pipeline_tasks.core.store.bucket import THREADS, Bucket
from pipeline_tasks.core.store.cache import Cache
from pipeline_tasks.core.store.disk import shortage
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.pack import may_be_packed
from pipeline_tasks.core.store.packs import Packs, Place
from pipeline_tasks.core.store.protocol import LOST, WHOLE_BYTES, Entry, checked_key, sha256_in

log = logging.getLogger(__name__)
IMMUTABLE = ("objects", "lineage/events")
_LOOK_FIRST_BYTES = 1 << 20
_DOWNLOADS = 2
_BLOCK = 1_000
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Objects:
    """What lies below :data:`IMMUTABLE` in ``bucket``; any other key is found where it is and never in a pack.

    Args:
        bucket: the bucket.
        local: this machine's folder of it, in which the copies are.
        limit_bytes: what the copies may come to.
    """

    def __init__(self, bucket: Bucket, local: LocalStore, limit_bytes: int) -> None:
        self._bucket, self._local = bucket, local
        self.packs = Packs(bucket, local.folder)
        self.copies = Cache(local.folder, IMMUTABLE, limit_bytes)

    def read(self, key: str) -> bytes | None:
        """See :meth:`Store.read`."""
        packed = self.packs.read(key)
        if packed is not None:
            return packed
        loose = self._bucket.get(key)
        if loose:
            return loose[0]
        return self.packs.read(key) if may_be_packed(key) and self.packs.look() else None

    def present(self, keys: Iterable[str]) -> set[str]:
        """See :meth:`Store.present`."""
        keys = set(keys)
        found = self.packs.present(keys)
        found |= {key for key, head in side_by_side(self._bucket.head, keys - found) if head}
        lost = set(filter(may_be_packed, keys - found))
        return found | self.packs.present(lost) if lost and self.packs.look() else found

    def create_from(self, key: str, path: Path) -> bool:
        """See :meth:`Store.create_from`."""
        there = path.stat().st_size > _LOOK_FIRST_BYTES and self._bucket.head(key) is not None
        named = sha256_in(key)
        made = not there and self._bucket.upload(key, path, sha256=named)
        if not made:
            self._bucket.touch(key)
        if made or named:
            copy = path.with_name(f"{path.name}.copy")
            os.link(path, copy)
            self.copies.put(key, copy, used=False)
        return made

    def entries(self, prefix: str) -> list[Entry]:
        """See :meth:`Store.entries`; what lies in a pack is as old as when it was written by itself."""
        folder = checked_key(prefix).rstrip("/") + "/"
        found = {}
        if folder.startswith("objects/"):
            packed = (entry for entries in self.packs.members().values() for entry in entries)
            found = {entry.key: entry for entry in packed if entry.key.startswith(folder)}
        found |= {entry.key: entry for entry in self._bucket.below(prefix)}
        return sorted(found.values(), key=lambda entry: entry.key)

    def sha256(self, key: str, *, here: bool = False) -> str | None:
        """See :meth:`Store.sha256`; a copy here that differs is dropped."""
        found = sha256_in(key) if here else self._download(key, Path(os.devnull))
        with suppress(FileNotFoundError):  # there is no copy, or it goes just now
            if file_sha256(self._local.folder / checked_key(key)) != found:
                log.warning("%s: the copy in %s differs from the object and is dropped", key, self._local.folder)
                self.copies.drop(key)
        return found

    def local_path(self, key: str) -> Path:
        """See :meth:`Store.local_path`.

        Raises:
            InputError: there is no such object, or its bytes are not those that it was named by.
            TransientError: the disk is full.
        """
        copy = self.copies.get(checked_key(key))
        if copy:
            return copy
        with self._local.alone(f"fetch-{short_id(key)}"):
            return self.copies.get(key) or self._fetched(key)

    def _fetched(self, key: str) -> Path:
        wanted, got = sha256_in(key), ""
        for _ in range(_DOWNLOADS):
            with self._local.temporary() as path:
                got = self.copy_to(key, path)
                if not wanted or got == wanted:
                    return self.copies.put(key, path)
        raise InputError(f"{key} in {self._bucket.address} is corrupted, its sha256 is {got}; {LOST}")

    def copy_to(self, key: str, path: Path) -> str:
        """See :meth:`Store.copy_to`; sha256 of what came."""
        try:
            got = self._download(key, path)
        except OSError as error:
            if not shortage(error) or not self.copies.trim(0):
                raise
            got = self._download(key, path)
        if got is None:
            raise InputError(f"{key} is missing from the store {self._bucket.address}; {LOST}")
        return got

    def _download(self, key: str, path: Path) -> str | None:
        """sha256 of what came, which may be in a pack since the last look; None where there is no such key."""
        if self.packs.find(key) is None:
            got = self._bucket.download(key, path)
            if got is not None or not may_be_packed(key):
                return got
        data = self.read(key)
        if data is None:
            return None
        path.write_bytes(data)
        return sha256(data).hexdigest()

    def ranges(self, key: str, size_bytes: int) -> Callable[[int, int], bytes] | None:
        """See :meth:`Store.ranges`."""
        if size_bytes <= WHOLE_BYTES or self.copies.get(checked_key(key)):
            return None

        def fetch(first: int, past: int) -> bytes:
            data, size = self._bucket.get_range(key, first, past) or (b"", -1)
            if (size, len(data)) != (size_bytes, past - first):
                has = f"{size} bytes" if size >= 0 else "fewer bytes"
                raise InputError(f"{key} in {self._bucket.address} has {has} and not {size_bytes}; {LOST}")
            return data

        return fetch

    def bring(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.bring`; neighbours in a pack come with one request."""
        wanted = dict.fromkeys(key for key in keys if not self.copies.get(checked_key(key)))
        runs = self.packs.runs(wanted)
        packed = {place.key for run in runs for place in run}
        deque(side_by_side(self._bring_run, runs), maxlen=0)
        deque(side_by_side(self._bring_one, (key for key in wanted if key not in packed)), maxlen=0)

    def _bring_one(self, key: str) -> None:
        with suppress(InputError):
            self.local_path(key)

    def _bring_run(self, run: list[Place]) -> None:
        for key, data in self.packs.read_run(run):
            if sha256(data).hexdigest() == sha256_in(key):
                with suppress(TransientError), self._local.temporary() as path:  # of a full disk local_path tells
                    path.write_bytes(data)
                    self.copies.put(key, path)

    def drop_lost_copies(self) -> None:
        """See :meth:`Store.drop_lost_copies`."""
        for folder in IMMUTABLE:
            for key in set(self._local.keys(folder)) - {entry.key for entry in self.entries(folder)}:
                self.copies.drop(key)


def side_by_side(work: Callable[[Asked], Answer], asked: Iterable[Asked]) -> Iterator[tuple[Asked, Answer]]:
    """Each of what is asked with what ``work`` gives, in order, a block at a time."""
    todo = iter(asked)
    with ThreadPoolExecutor(THREADS) as pool:
        while block := list(islice(todo, _BLOCK)):
            if len(block) == 1:
                yield block[0], work(block[0])
            else:
                yield from zip(block, pool.map(work, block), strict=True)
