"""The packs of a bucket: which small objects lie in them, and where.

An object keeps its key, so whoever asks for it does not know whether it lies in a pack, see
:mod:`pipeline_tasks.core.upkeep.compact`. Of every pack the list of its members is kept on this machine; packs never
change, so a process looks for others only where it does not find what it was asked for.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.pack import (
    MEMBER,
    PREFIX,
    digest_of,
    key_of,
    may_be_packed,
    members,
    pack_key,
    packed,
)
from pipeline_tasks.core.store.protocol import LOST, Entry

log = logging.getLogger(__name__)
OBJECTS = "objects"
RUN_BYTES = 16 << 20
"""What one request fetches of a pack at most, where more of it is wanted than one object."""
_LOOKS = 4


@dataclass(frozen=True)
class Place:
    """Where an object lies: the bytes of ``pack`` from ``first`` to before ``past``."""

    key: str
    pack: str
    first: int
    past: int


class _PackIndex:
    """What a look found.

    Attributes:
        lists: pack -> its members, in the order of its bytes.
    """

    def __init__(self, lists: dict[str, np.ndarray]) -> None:
        self.lists, self._names = lists, list(lists)
        self._ends = np.cumsum([len(found) for found in lists.values()])
        digests = np.concatenate([*(found["sha256"] for found in lists.values()), np.empty(0, "S32")])
        self._order = np.argsort(digests, kind="stable")
        self._digests = digests[self._order]

    def find(self, key: str) -> Place | None:
        """Where ``key`` lies."""
        wanted = digest_of(key)
        at = int(self._digests.searchsorted(wanted))
        if at == len(self._digests) or self._digests[at] != wanted:
            return None
        number = int(self._ends.searchsorted(self._order[at], side="right"))
        row = self.lists[self._names[number]][self._order[at] - self._ends[number]]  # counted from the end of its pack
        return Place(key, self._names[number], int(row["at"]), int(row["at"]) + int(row["size"]))

    def entries(self, pack: str) -> list[Entry]:
        """What lies in a pack."""
        return [Entry(key_of(row), int(row["size"]), float(row["modified"])) for row in self.lists[pack]]


class Packs:
    """The packs of ``bucket``, the lists of whose members are kept in ``folder``.

    What writes packs and takes objects out of them is for one at a time: its callers hold the store's lock ``PREFIX``.
    """

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket, self._folder = bucket, folder / PREFIX
        self._lock = threading.Lock()
        self._sizes: dict[str, int] | None = None
        self._known = _PackIndex({})
        self._unreadable: list[str] = []

    def look(self) -> bool:
        """See which packs there are now; whether they are others than before."""
        with self._lock:
            there = {entry.key: entry.size_bytes for entry in self._bucket.below(PREFIX)}
            if there == self._sizes:
                return False
            lists = {key: self._members(key, size) for key, size in sorted(there.items())}
            self._known, self._sizes = _PackIndex({k: found for k, found in lists.items() if found is not None}), there
            self._unreadable = [key for key, found in lists.items() if found is None and self._bucket.head(key)]
            for key in self._unreadable:
                log.warning("%s in %s is damaged, and all in it missing; %s", key, self._bucket.address, LOST)
            self._forget_lists(there)
        return True

    def _members(self, key: str, size_bytes: int) -> np.ndarray | None:
        """The members of a pack; None where it is gone, or where nobody can say."""
        kept = self._local_path(key)
        with suppress(FileNotFoundError):
            return np.fromfile(kept, MEMBER)

        def fetch(first: int, past: int) -> bytes:
            return (self._bucket.get_range(key, first, past) or (b"", 0))[0]

        found = members(fetch, size_bytes)
        if found is None:
            return None
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_name(f"{uuid.uuid4().hex}.new")
        fresh.write_bytes(found.tobytes())
        durable.replace(fresh, kept)
        return found

    def _local_path(self, key: str) -> Path:
        return self._folder / key.rpartition("/")[2]

    def _forget_lists(self, there: Iterable[str]) -> None:
        kept = {self._local_path(key) for key in there}
        for path in self._folder.glob("[0-9a-f]*"):
            if path not in kept and not path.suffix:
                path.unlink(missing_ok=True)

    def find(self, key: str) -> Place | None:
        """Where the object ``key`` lies, as far as this process knows."""
        if not may_be_packed(key):
            return None
        if self._sizes is None:
            self.look()
        return self._known.find(key)

    def order(self, key: str) -> tuple[str, int]:
        """What to sort keys by, so that those of a pack stand together as they lie in it; first those in none."""
        place = self.find(key)
        return (place.pack, place.first) if place else ("", 0)

    def members(self) -> dict[str, list[Entry]]:
        """Each pack that is there now with what lies in it, in the order of its bytes."""
        self.look()
        return {pack: self._known.entries(pack) for pack in self._known.lists}

    def unreadable(self) -> list[str]:
        """The packs that are there now of which nobody can say what lies in them."""
        self.look()
        return self._unreadable

    def present(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that lie in a pack that is still there."""
        found, whole = set(), {}
        for key in keys:
            for _ in range(_LOOKS):
                place = self.find(key)
                if place and place.pack not in whole:
                    whole[place.pack] = self._bucket.head(place.pack) is not None
                if place is None or whole[place.pack] or not self.look():
                    break
            if place and whole[place.pack]:
                found.add(key)
        return found

    def read(self, key: str) -> bytes | None:
        """The bytes of ``key``, as they lie there; None where it is in no pack."""
        for _ in range(_LOOKS):
            place = self.find(key)
            if place is None:
                return None
            found = self._bucket.get_range(place.pack, place.first, place.past)
            if found:
                return found[0]
            self.look()
        raise InputError(f"{key} moves from pack to pack in {self._bucket.address}; try again")

    def runs(self, keys: Iterable[str]) -> list[list[Place]]:
        """Those of ``keys`` that lie in packs, neighbours together as far as one request goes."""
        places = sorted(filter(None, map(self.find, keys)), key=lambda place: (place.pack, place.first))
        found: list[list[Place]] = []
        for place in places:
            last = found[-1] if found else []
            if (
                last
                and (last[-1].pack, last[-1].past) == (place.pack, place.first)
                and (place.past - last[0].first <= RUN_BYTES)
            ):
                last.append(place)
            else:
                found.append([place])
        return found

    def read_run(self, run: Sequence[Place]) -> list[tuple[str, bytes]]:
        """Each key of one of :meth:`runs` with its bytes; nothing where the pack is gone."""
        first = run[0].first
        data, _ = self._bucket.get_range(run[0].pack, first, run[-1].past) or (b"", 0)
        return [(place.key, data[place.first - first : place.past - first]) for place in run] if data else []

    def write(self, objects: Iterable[tuple[Entry, bytes]]) -> str:
        """Put objects into a pack, in this order; its key. They stay where they were, too.

        Raises:
            InputError: the bytes of one are not those that it is named by.
        """
        try:
            data = packed(objects)
        except ValueError as error:
            raise InputError(f"{error} in {self._bucket.address} is corrupted; {LOST}") from error
        key = pack_key(data)
        self._bucket.put_if(key, data, sha256=key.rpartition("/")[2])
        return key

    def take_out(self, keys: Iterable[str]) -> None:
        """Write every pack in which one of ``keys`` lies anew without it."""
        gone = set(keys)
        self.look()
        while packs := {place.pack for place in map(self.find, gone) if place}:
            for pack in packs:
                left = [(entry, data) for entry, data in self._contents(pack) if entry.key not in gone]
                if left:
                    self.write(left)
                self._bucket.delete(pack)
            self.look()  # one may lie in two

    def _contents(self, pack: str) -> Iterator[tuple[Entry, bytes]]:
        data, at = (self._bucket.get(pack) or (b"", ""))[0], 0
        for entry in self._known.entries(pack):
            yield entry, data[at : at + entry.size_bytes]
            at += entry.size_bytes

    def drop_covered(self) -> None:
        """Drop every pack of which all lies in others, too."""
        there = self.members()
        times = Counter(entry.key for entries in there.values() for entry in entries)
        for pack in sorted(there, key=lambda pack: sum(entry.size_bytes for entry in there[pack])):
            if all(times[entry.key] > 1 for entry in there[pack]):
                self._bucket.delete(pack)
                times.subtract(entry.key for entry in there[pack])

    def loose(self) -> Iterator[Entry]:
        """The objects that lie by themselves, whether or not a pack holds them, too."""
        return self._bucket.below(OBJECTS)

    def drop_loose(self, keys: Iterable[str]) -> None:
        """Forget the objects that lie by themselves under ``keys``; what packs hold stays."""
        self._bucket.delete_all(keys)

    def freed_by(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those of ``entries`` whose going frees space: one that lies in a pack, where half of that pack would go.

        Those of a pack stand together.
        """
        self.look()
        of_pack = defaultdict(list)
        for entry in entries:
            place = self.find(entry.key)
            of_pack[place.pack if place else ""].append(entry)
        lists = self._known.lists
        return [
            entry
            for pack, those in of_pack.items()
            if not pack or 2 * sum(entry.size_bytes for entry in those) >= lists[pack]["size"].sum()
            for entry in those
        ]
