"""Puts the small objects of a bucket into packs, so that thousands of parts cost a few requests to read.

Nothing above the store sees it: a part keeps its key and its bytes, so versions, memo and lineage stay as they are, as
git's blobs do in its packs. Parts of a dataset lie beside one another, in the order in which they are read.

Safe beside running steps and killed anywhere. An object lies by itself until its pack is there, and goes under the
protocol of :mod:`pipeline_tasks.core.pins`: one that a step writes again meanwhile stays as young as that step made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline_tasks.core.pins import deletion
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.store import Entry, Store
from pipeline_tasks.core.store.pack import PACK_BYTES, PREFIX, may_be_packed
from pipeline_tasks.core.store.packs import Packs
from pipeline_tasks.core.store.protocol import WHOLE_BYTES
from pipeline_tasks.core.upkeep.gc import GRACE_S, manifests_at


@dataclass(frozen=True)
class Scattered:
    """Small objects that a :func:`compact` would put together.

    Attributes:
        groups: a pack each, in the order of its bytes.
        twice: keys of those that lie by themselves although a pack holds them.
        grace_s: nothing younger is among them.
    """

    groups: list[list[Entry]]
    twice: list[str]
    grace_s: float

    @property
    def objects(self) -> list[Entry]:
        """All that goes into packs."""
        return [entry for group in self.groups for entry in group]


def find_scattered(store: Store, *, grace_s: float = GRACE_S, pack_bytes: int = PACK_BYTES) -> Scattered:
    """The parts of up to a megabyte that versions name and that lie by themselves, or in a pack of less than half.

    Args:
        store: the store; in a folder files are read where they lie, and none is found.
        grace_s: seconds; nothing younger is taken.
        pack_bytes: what a pack comes to; the last is left out where it is less than half.

    Raises:
        InputError: a manifest cannot be read, so nobody knows what it needs.
    """
    if store.packs is None:
        return Scattered([], [], grace_s)
    old = store.now() - grace_s
    packed = {e.key for held in store.packs.members().values() if 2 * _size(held) >= pack_bytes for e in held}
    small = {
        entry.key: entry
        for entry in store.entries("objects")
        if entry.size_bytes <= WHOLE_BYTES and entry.modified < old and may_be_packed(entry.key)
    }
    twice = {entry.key for entry in store.packs.loose()} & packed & small.keys()
    todo = _in_order(store, {key: entry for key, entry in small.items() if key not in packed})
    return Scattered(list(_groups(todo, pack_bytes)), sorted(twice), grace_s)


def _groups(entries: Iterable[Entry], pack_bytes: int) -> Iterator[list[Entry]]:
    """``entries`` in their order, in groups of up to ``pack_bytes``; the last not where it is less than half."""
    group: list[Entry] = []
    size = 0
    for entry in entries:
        if size + entry.size_bytes > pack_bytes:
            yield group
            group, size = [], 0
        group.append(entry)
        size += entry.size_bytes
    if 2 * size >= pack_bytes:
        yield group


def _size(entries: list[Entry]) -> int:
    return sum(entry.size_bytes for entry in entries)


def _in_order(store: Store, small: dict[str, Entry]) -> Iterator[Entry]:
    """Those of ``small`` that versions name, each once: dataset by dataset, and as they are read."""
    written = sorted(store.entries("versions"), key=lambda entry: (entry.key.rpartition("/")[0], entry.modified))
    for manifest in manifests_at(store, (entry.key for entry in written)).values():
        for part in manifest.objects:
            if part.key in small:
                yield small.pop(part.key)


def compact(store: Store, found: Scattered) -> None:
    """Put together what was ``found``.

    Raises:
        InputError: the bytes of an object are not those that it is named by.
    """
    packs = store.packs
    if packs is None:
        return
    with meter("compact", len(found.groups), "packs") as progress:
        for group in found.groups:
            with store.alone(PREFIX):  # until they are in: what is deleted meanwhile is looked for in packs after this
                read = store.read_all(entry.key for entry in group)
                packs.write((entry, data) for entry, (_, data) in zip(group, read, strict=True) if data is not None)
            progress.advance()
    if twins := {*found.twice, *(entry.key for entry in found.objects)}:
        _drop_twins(store, packs, twins, found.grace_s)
    with store.alone(PREFIX):
        packs.drop_covered()


def _drop_twins(store: Store, packs: Packs, keys: set[str], grace_s: float) -> None:
    """Forget what lies by itself and in a pack, unless it was written again since."""
    with deletion(store, keys) as right:
        old = store.now() - grace_s
        packed = {entry.key for members in packs.members().values() for entry in members}
        gone = [e.key for e in packs.loose() if e.key in keys & packed and e.modified < old]
        right.delete_all(gone, packs.drop_loose)
