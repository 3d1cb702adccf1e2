"""The store in a bucket, with copies of immutable objects and all work in progress on the local disk."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, lru_cache
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.conditions import check_conditions
from pipeline_tasks.core.store.lease import LEASE_S, leased, shown
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.objects import Objects, side_by_side
from pipeline_tasks.core.store.pack import PREFIX, may_be_packed
from pipeline_tasks.core.store.packs import Packs
from pipeline_tasks.core.store.protocol import Entry, Pin

_GIB = 1024**3
_HEEDED = "conditions-are-heeded"


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
        self.bucket, self._caches, self._limit_bytes, self._lease_s = Bucket(address), caches, limit_bytes, lease_s
        self._scratch = scratch
        self._shown: dict[str, Callable[[], bool]] = {}

    @classmethod
    def of_this_machine(cls, address: str, lease_s: float = LEASE_S) -> S3Store:
        """The store at ``address``, with caches and work in progress where the settings of this process say.

        Raises:
            InputError: it names no bucket.
        """
        found = settings()
        return cls(address, found.store_cache, int(found.store_cache_gib * _GIB), lease_s, found.scratch)

    def __reduce__(self) -> tuple[Callable[[str, float], S3Store], tuple[str, float]]:
        return _of_this_process, (str(self), self._lease_s)

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
        return _made(self.scratches.parent, "FOUNDRY_SCRATCH") if self._scratch else self._local

    @property
    def scratches(self) -> Path:
        """See :attr:`Store.scratches`."""
        return (self._scratch or self._caches) / self.folder.name / "scratch"

    @cached_property
    def objects(self) -> Objects:
        """What never changes."""
        return Objects(self.bucket, self._local, self._limit_bytes)

    @property
    def packs(self) -> Packs:
        """See :attr:`Store.packs`."""
        return self.objects.packs

    @cached_property
    def _heeding(self) -> Bucket:
        """The bucket, for writes with conditions, once this machine has seen that its server heeds them."""
        if not self._local.exists(_HEEDED):
            check_conditions(self.bucket)
            self._local.create(_HEEDED, b"")
        return self.bucket

    @cached_property
    def _holder(self) -> str:
        return self._local.holder()

    def read(self, key: str) -> bytes | None:
        """See :meth:`Store.read`."""
        return self.objects.read(key)

    def read_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """See :meth:`Store.read_all`."""
        return side_by_side(self.read, keys)

    def exists(self, key: str) -> bool:
        """See :meth:`Store.exists`."""
        return bool(self.objects.present([key]))

    def present(self, keys: Iterable[str]) -> set[str]:
        """See :meth:`Store.present`."""
        return self.objects.present(keys)

    def create(self, key: str, data: bytes) -> bool:
        """See :meth:`Store.create`."""
        return self._heeding.put_if(key, data) is not None

    def create_from(self, key: str, path: Path) -> bool:
        """See :meth:`Store.create_from`."""
        return self.objects.create_from(key, path)

    def replace(self, key: str, data: bytes) -> None:
        """See :meth:`Store.replace`."""
        self.bucket.put(key, data)

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """See :meth:`Store.swap`."""
        body, etag = self.bucket.get(key) or (None, "")
        return body == old and self._heeding.put_if(key, new, match=etag) is not None

    def delete(self, key: str) -> None:
        """See :meth:`Store.delete`."""
        self.delete_all([key])

    def delete_all(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.delete_all`; a pack is written anew without those that lie in it."""
        gone = list(keys)
        self.bucket.delete_all(gone)
        packed = list(filter(may_be_packed, gone))
        if packed:
            with self.alone(PREFIX):  # after them, so that whoever packs one meanwhile did so before this
                self.packs.take_out(packed)
        for key in gone:
            self.objects.copies.drop(key)

    def rely_on(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.rely_on`; what a bucket says lasts."""

    def make_last(self, prefix: str) -> None:
        """See :meth:`Store.make_last`; what a bucket says lasts."""

    def keys(self, prefix: str) -> Iterator[str]:
        """See :meth:`Store.keys`."""
        return (entry.key for entry in self.objects.entries(prefix))

    def entries(self, prefix: str) -> Iterator[Entry]:
        """See :meth:`Store.entries`."""
        return iter(self.objects.entries(prefix))

    def sha256(self, key: str, *, here: bool = False) -> str | None:
        """See :meth:`Store.sha256`; a copy here that differs is dropped."""
        return self.objects.sha256(key, here=here)

    def local_path(self, key: str) -> Path:
        """See :meth:`Store.local_path`.

        Raises:
            InputError: there is no such object, or its bytes are not those that it was named by.
            TransientError: the disk is full.
        """
        return self.objects.local_path(key)

    def ranges(self, key: str, size_bytes: int) -> Callable[[int, int], bytes] | None:
        """See :meth:`Store.ranges`."""
        return self.objects.ranges(key, size_bytes)

    def copy_to(self, key: str, path: Path) -> None:
        """See :meth:`Store.copy_to`."""
        self.objects.copy_to(key, path)

    def bring(self, keys: Iterable[str]) -> None:
        """See :meth:`Store.bring`."""
        self.objects.bring(keys)

    def drop_lost_copies(self) -> None:
        """See :meth:`Store.drop_lost_copies`."""
        self.objects.drop_lost_copies()

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
        with (
            self._local.pinned(name, data),
            leased(self._heeding, key, self._holder, self._lease_s, data.decode()) as self._shown[name],
        ):
            try:
                yield
            finally:
                del self._shown[name]

    def pins_lasted(self) -> bool:
        """See :meth:`Store.pins_lasted`."""
        return all(lasted() for lasted in list(self._shown.values()))

    def pins(self) -> list[Pin]:
        """See :meth:`Store.pins`."""

        def is_here(name: str, owner: str) -> bool | None:
            return self._local.pin(name) is not None if owner == self._holder else None

        return shown(self.bucket, "pins", is_here, self._lease_s)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """See :meth:`Store.alone`."""
        with self._local.alone(name), leased(self._heeding, f"locks/{name}", self._holder, self._lease_s):
            yield


@lru_cache(maxsize=8)
def _of_this_process(address: str, lease_s: float) -> S3Store:
    """The store that a worker is sent with each piece of its work: one, with its connections and what it knows.

    The worker may be on another machine than who sent it, and has that one's caches.
    """
    return S3Store.of_this_machine(address, lease_s)


def _made(folder: Path, setting: str) -> LocalStore:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error}); set {setting} to a folder") from error
    return LocalStore(folder)
