"""Where bytes live. A store is a flat map from key to bytes with three promises.

1. What can be read is whole: a key appears with all its bytes or not at all.
2. ``create`` has exactly one winner per key.
3. Of those that ``swap`` the same bytes of a key for others, exactly one wins.

Everything above (parts, manifests, memo, paid answers, events) is built on these alone, so that a folder and an object
store behave alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline_tasks.core.errors import InputError

if TYPE_CHECKING:
    from pipeline_tasks.core.store.packs import Packs

TEMPORARY = "tmp"
LOST = (
    "copy it from a backup, or see `foundry check`: with --drop it forgets the versions of it, which their steps then "
    "make again"
)
"""What to do about an object that is missing or damaged."""
WHOLE_BYTES = 1 << 20
"""Objects up to this size are fetched whole: it takes as long as the second request that pieces need."""
_OBJECT = re.compile(r"objects/[0-9a-f]{2}/([0-9a-f]{64})(?:\.\w+)?")
_COMPONENT = re.compile(r"[^\x00-\x1f\x7f\\/]{1,255}")


def checked_key(key: str) -> str:
    """``key`` as it is, once it is known to name something below a store.

    Raises:
        InputError: it is absolute, climbs with ``..``, or holds an empty component, a backslash or a control character.
    """
    parts = key.removesuffix("/").split("/")
    if any(part in (".", "..") or not _COMPONENT.fullmatch(part) for part in parts):
        raise InputError(f"store key {key!r} leaves the store or is no key; use names joined by single slashes")
    return key


def sha256_in(key: str) -> str:
    """The sha256 that the key of an object is made of; empty for any other key."""
    found = _OBJECT.fullmatch(key)
    return found[1] if found else ""


@dataclass(frozen=True)
class Entry:
    """One key of a listing.

    Attributes:
        key: the key.
        size_bytes: of its value.
        modified: seconds since 1970, by the clock of whoever keeps it.
    """

    key: str
    size_bytes: int
    modified: float


@dataclass(frozen=True)
class Pin:
    """What a living process shows the others.

    Attributes:
        data: what it shows.
        since: no later than the moment at which it began to, in seconds since 1970, by the clock of :class:`Entry`.
    """

    data: bytes
    since: float


class Store(Protocol):
    """The promises above. Every method that takes a key or a name raises InputError for one that leaves the store."""

    def __hash__(self) -> int:
        """Equal for stores of one place, so that what was opened may be kept."""

    @property
    def folder(self) -> Path:
        """This machine's folder for it: work in progress, the lineage database, and :meth:`local_path` files."""

    @property
    def scratches(self) -> Path:
        """The folder of all :meth:`scratch` folders."""

    @property
    def packs(self) -> Packs | None:
        """Where small objects lie in large ones, under their own keys as before; None where that saves nothing."""

    def read(self, key: str) -> bytes | None:
        """The bytes of ``key``, or None; InputError where they are another user's alone."""

    def read_all(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Each key with its bytes, in order; read side by side where that is faster, a block of keys at a time."""

    def exists(self, key: str) -> bool:
        """Whether ``key`` can be read."""

    def present(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that can be read."""

    def rely_on(self, keys: Iterable[str]) -> None:
        """Let no power cut take ``keys`` once the next name is written here, whichever process wrote them."""

    def create(self, key: str, data: bytes) -> bool:
        """Write ``key`` unless it exists; True for the one writer that made it."""

    def create_from(self, key: str, path: Path) -> bool:
        """Like :meth:`create` with a local file, never to be written again. A key that is there counts as new."""

    def replace(self, key: str, data: bytes) -> None:
        """Write ``key``, replacing what is there in one move."""

    def swap(self, key: str, old: bytes | None, new: bytes) -> bool:
        """Write ``key`` if it holds ``old`` (None: if it is not there); True for the one writer that did."""

    def delete(self, key: str) -> None:
        """Forget ``key``; no error where it is not."""

    def delete_all(self, keys: Iterable[str]) -> None:
        """Forget each of ``keys``, in any order."""

    def make_last(self, prefix: str) -> None:
        """From now on all names below ``prefix``, and that others are gone, outlive a power cut, whoever was killed."""

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys below ``prefix`` (a folder), sorted."""

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Like :meth:`keys`, with size and time."""

    def sha256(self, key: str, *, here: bool = False) -> str | None:
        """Of the bytes that are kept as ``key`` now, whatever they should be; None where there are none.

        With ``here`` nothing is fetched: what is not on this machine counts as whole, for it is checked when it comes.
        """

    def local_path(self, key: str) -> Path:
        """A local, read-only file with the bytes of an immutable ``key``."""

    def ranges(self, key: str, size_bytes: int) -> Callable[[int, int], bytes] | None:
        """What gives bytes of an immutable ``key``, from a place to before another; None where that saves nothing.

        Nothing is kept of them, and unlike :meth:`local_path` it does not vouch for them. It raises InputError where
        there is no such key, or one that is not ``size_bytes`` long.
        """

    def copy_to(self, key: str, path: Path) -> None:
        """Write the bytes of an immutable ``key`` to a local file of the caller's; no copy is kept beside it."""

    def bring(self, keys: Iterable[str]) -> None:
        """Make :meth:`local_path` of these cheap; what cannot be had is left for it to say."""

    def drop_lost_copies(self) -> None:
        """Forget this machine's copies of objects that are no longer kept."""

    def scratch(self, name: str) -> Path:
        """A local folder for work in progress that survives a kill."""

    def drop_scratch(self, name: str) -> None:
        """Forget that folder; no error where it is not."""

    def temporary(self, suffix: str = "") -> AbstractContextManager[Path]:
        """A fresh local file, fit for :meth:`create_from`, that is gone at the end of the block.

        Raises:
            TransientError: inside the block, the disk is full, or an erasure drops the file.
        """

    def now(self) -> float:
        """Seconds since 1970, by the clock of :class:`Entry`, or up to a second less."""

    def pinned(self, name: str, data: bytes) -> AbstractContextManager[None]:
        """Show ``data`` under a name that nobody else has, while the block lasts; one that is killed lets go."""

    def pins_lasted(self) -> bool:
        """Whether nobody took this process for dead since it began to show what it shows now."""

    def pins(self) -> list[Pin]:
        """What living processes show; pins of dead ones go. May take a lease: another machine's have to be watched."""

    def alone(self, name: str) -> AbstractContextManager[None]:
        """Wait until no other user of the store is inside the same ``name``; one that is killed lets go."""
