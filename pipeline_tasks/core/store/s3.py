"""The store in a bucket, with a cache of immutable objects and all work in progress on the local disk."""

from __future__ import annotations

import logging
import math
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256, short_id
from pipeline_tasks.core.store.bucket import THREADS, Bucket
from pipeline_tasks.core.store.cache import Cache
from pipeline_tasks.core.store.disk import shortage
from pipeline_tasks.core.store.lease import LEASE_S, leased, shown
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.protocol import LOST, WHOLE_BYTES, Entry, Pin, checked_key, sha256_in

log = logging.getLogger(__name__)
IMMUTABLE = ("objects", "lineage/events")
_LOOK_FIRST_BYTES = 1 << 20
_DOWNLOADS = 2
_BLOCK = 1_000


class S3Store:
    """A store below ``s3://bucket/prefix``; safe for many processes on many machines.

    Args:
        address: ``s3://bucket/prefix``.
        caches: folder of this machine's caches; the store has one of its own in it.
        limit_bytes: what the copies of immutable objects in it may come to.
        lease_s: seconds after which a lock whose holder was killed on another machine is free.
        scratch: folder of work in progress, which another machine may share; where None, it is among the caches.
    """

    def __init__(
        self, address: str, caches: Path, limit_bytes: int, lease_s: float = LEASE_S, scratch: Path | None = None
    ) -> None:
        self._made_of, self._scratch = (address, caches, limit_bytes, lease_s, scratch), scratch
        self.bucket, self._caches, self._limit_bytes, self._lease_s = Bucket(address), caches, limit_bytes, lease_s

    def __reduce__(self) -> tuple[type[S3Store], tuple[Any, ...]]:
        return S3Store, self._made_of

    def __str__(self) -> str:
        return self.bucket.address

    @cached_property
    def folder(self) -> Path:
        """See :attr:`Store.folder`."""
        endpoint = self.bucket.client.meta.endpoint_url
        return self._caches / f"{self.bucket.name}-{short_id(endpoint, self.bucket.name, self.bucket.prefix)}"

    @cached_property
    def _local(self) -> LocalStore:
        return _made(self.folder, "FOUNDRY_STORE_CACHE")

    @cached_property
    def _work(self) -> LocalStore:
        return _made(self._scratch / self.folder.name, "FOUNDRY_SCRATCH") if self._scratch else self._local

    @property
    def scratches(self) -> Path:
        """See :attr:`Store.scratches`."""
        return self._work.scratches

    @cached_property
    def _cache(self) -> Cache:
        return Cache(self.folder, IMMUTABLE, self._limit_bytes)

    @cached_property
    def _holder(self) -> str:
        return self._local.holder()

    def read(self, key: str) -> bytes | None:
        """See :meth:`Store.read`."""
        found = self.bucket.get(key)
        return found[0] if found else None

    def read_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """See :meth:`Store.read_all`."""
        return _side_by_side(self.read, keys)

    def exists(self, key: str) -> bool:
        """See :meth:`Store.exists`."""
        return self.bucket.head(key) is not None

    def present(self, keys: Iterable[str]) -> set[str]:
        """See :meth:`Store.present`."""
        return {key for key, there in _side_by_side(self.exists, keys) if there}

    def create(self, key: str, data: bytes) -> bool:
        """See :meth:`Store.create`."""
        return self.bucket.put_if(key, data) is not None

    def create_from(self, key: str, path: Path) -> bool:
        """See :meth:`Store.create_from`."""
        there = path.stat().st_size > _LOOK_FIRST_BYTES and self.exists(key)
        sha256 = sha256_in(key)
        made = not there and self.bucket.upload(key, path, sha256=sha256)
        if not made:
            self.bucket.touch(key)
        if made or sha256:
            copy = path.with_name(f"{path.name}.copy")
            os.link(path, copy)
            self._cache.put(key, copy, used=False)
        return made

    def replace(self, key: str, data: bytes) -> None:
        """See :meth:`Store.replace`."""
        self.bucket.put(key, data)

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """See :meth:`Store.swap`."""
        body, etag = self.bucket.get(key) or (None, "")
        return body == old and self.bucket.put_if(key, new, match=etag) is not None

    def delete(self, key: str) -> None:
        """See :meth:`Store.delete`."""
        self.bucket.delete(key)
        self._cache.drop(key)

    def delete_all(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.delete_all`."""
        gone = list(keys)
        self.bucket.delete_all(gone)
        for key in gone:
            self._cache.drop(key)

    def make_last(self, prefix: str) -> None:
        """See :meth:`Store.make_last`; what a bucket says lasts."""

    def keys(self, prefix: str) -> Iterator[str]:
        """See :meth:`Store.keys`."""
        yield from sorted(entry.key for entry in self.bucket.below(prefix))

    def entries(self, prefix: str) -> Iterator[Entry]:
        """See :meth:`Store.entries`."""
        yield from sorted(self.bucket.below(prefix), key=lambda entry: entry.key)

    def sha256(self, key: str) -> str | None:
        """See :meth:`Store.sha256`; a copy here that differs is dropped."""
        found, copy = self.bucket.download(key, Path(os.devnull)), self.folder / checked_key(key)
        if copy.is_file() and file_sha256(copy) != found:
            log.warning("%s: the copy in %s differs from the object and is dropped", key, self.folder)
            self._cache.drop(key)
        return found

    def local_path(self, key: str) -> Path:
        """See :meth:`Store.local_path`.

        Raises:
            InputError: there is no such object, or its bytes are not those that it was named by.
            TransientError: the disk is full.
        """
        cached = self._cache.get(checked_key(key))
        if cached:
            return cached
        with self._local.alone(f"fetch-{short_id(key)}"):
            return self._cache.get(key) or self._fetched(key)

    def ranges(self, key: str, size_bytes: int) -> Callable[[int, int], bytes] | None:
        """See :meth:`Store.ranges`."""
        if size_bytes <= WHOLE_BYTES or self._cache.get(checked_key(key)):
            return None

        def fetch(first: int, past: int) -> bytes:
            data, size = self.bucket.get_range(key, first, past) or (b"", -1)
            if (size, len(data)) != (size_bytes, past - first):
                raise InputError(f"{key} in {self} has {size} bytes and not {size_bytes}; {LOST}")
            return data

        return fetch

    def _fetched(self, key: str) -> Path:
        wanted, got = sha256_in(key), ""
        for _ in range(_DOWNLOADS):
            with self.temporary() as path:
                got = self._downloaded(key, path)
                if not wanted or got == wanted:
                    return self._cache.put(key, path)
        raise InputError(f"{key} in {self} is corrupted, its sha256 is {got}; {LOST}")

    def _downloaded(self, key: str, path: Path) -> str:
        """sha256 of what came."""
        try:
            got = self.bucket.download(key, path)
        except OSError as error:
            if not shortage(error) or not self._cache.trim(0):
                raise
            got = self.bucket.download(key, path)
        if got is None:
            raise InputError(f"{key} is missing from the store {self}; {LOST}")
        return got

    def copy_to(self, key: str, path: Path) -> None:
        """See :meth:`Store.copy_to`."""
        self._downloaded(key, path)

    def bring(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.bring`."""

        def fetch(key: str) -> None:
            with suppress(InputError):
                self.local_path(key)

        wanted = (key for key in keys if not self._cache.get(checked_key(key)))
        deque(_side_by_side(fetch, wanted), maxlen=0)

    def drop_lost_copies(self) -> None:
        """See :meth:`Store.drop_lost_copies`."""
        for folder in IMMUTABLE:
            for key in set(self._local.keys(folder)) - set(self.keys(folder)):
                self._cache.drop(key)

    def scratch(self, name: str) -> Path:
        """See :meth:`Store.scratch`."""
        return self._work.scratch(name)

    def drop_scratch(self, name: str) -> None:
        """See :meth:`Store.drop_scratch`."""
        self._work.drop_scratch(name)

    def temporary(self, suffix: str = "") -> AbstractContextManager[Path]:
        """See :meth:`Store.temporary`."""
        return self._local.temporary(suffix)

    def now(self) -> float:
        """See :meth:`Store.now`."""
        key = f"gc/now-{uuid.uuid4().hex}"
        self.bucket.put(key, b"")
        found = self.bucket.head(key)
        self.bucket.delete(key)
        return math.floor(found.modified) if found else 0.0

    @contextmanager
    def pinned(self, name: str, data: bytes) -> Iterator[None]:
        """See :meth:`Store.pinned`."""
        key = f"pins/{name}"
        with self._local.pinned(name, data), leased(self.bucket, key, self._holder, self._lease_s, data.decode()):
            yield

    def pins(self) -> list[Pin]:
        """See :meth:`Store.pins`."""

        def is_here(name: str, owner: str) -> bool | None:
            return self._local.pin(name) is not None if owner == self._holder else None

        return shown(self.bucket, "pins", is_here, self._lease_s)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """See :meth:`Store.alone`."""
        with self._local.alone(name), leased(self.bucket, f"locks/{name}", self._holder, self._lease_s):
            yield


def _made(folder: Path, setting: str) -> LocalStore:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error}); set {setting} to a folder") from error
    return LocalStore(folder)


def _side_by_side(work: Callable[[str], Any], keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Each key with what ``work`` gives, in order, a block of keys at a time."""
    todo = iter(keys)
    with ThreadPoolExecutor(THREADS) as pool:
        while block := list(islice(todo, _BLOCK)):
            if len(block) == 1:
                yield block[0], work(block[0])
            else:
                yield from zip(block, pool.map(work, block), strict=True)
