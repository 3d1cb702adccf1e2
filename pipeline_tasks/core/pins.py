"""Who needs what while it runs, and the one who deletes: neither can miss the other.

A run shows a *pin* before it looks at anything: the versions that it reads and may find made. Who deletes shows a
*mark* that names what shall go, and only then looks at the pins, and at everything else, a second time. So a run that
came first is seen by the second look. One that comes later sees the mark, and waits until the deletion is over; whoever
deletes holds a lock meanwhile, which a kill lets go.

Between both lies what a pinned run writes although it is there, a part or a version. It is touched first, which the
second look sees; if the mark names it, the second look may be over, so the run waits, and writes it again where it is
gone. Without a mark the whole deletion may be over, so the run looks whether it is there. A part that no version names
yet is known by its age, no more than that of its run's pin, by the store's clock.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store

MARK = "gc/marked.json"
UPKEEP = "upkeep"
_BLOCK = 1_000


@dataclass(frozen=True)
class Pin:
    """What a living run pins.

    Attributes:
        step: who it is.
        refs: the versions that it needs.
        since: when it began, by the clock that stamps the store's entries.
    """

    step: str
    refs: tuple[Ref, ...]
    since: float


@contextmanager
def pinned(store: Store, step: str, refs: Iterable[Ref]) -> Iterator[None]:
    """Nothing that ``refs`` name, or that is written in the block, is deleted until its end."""
    shown = canonical_json({"step": step, "refs": [str(ref) for ref in refs]})
    with store.pinned(uuid.uuid4().hex, shown):
        while store.exists(MARK):
            _wait(store)
        yield


def living_pins(store: Store) -> list[Pin]:
    """What living runs pin."""
    found = []
    for pin in store.pins():
        facts = json.loads(pin.data)
        found.append(Pin(facts["step"], tuple(map(Ref.parse, facts["refs"])), pin.since))
    return found


def create_despite_upkeep(store: Store, key: str, write: Callable[[], bool]) -> bool:
    """Make ``key`` by ``write``, unless it is there, again until nobody can delete it who did not know of this.

    Returns what the last ``write`` gave: whether it made it.
    """
    made = write()
    while (marked := key.encode() in (store.read(MARK) or b"")) or not store.exists(key):
        if marked:
            _wait(store)
        made = write()
    return made


def _wait(store: Store) -> None:
    """Until nobody deletes; the mark of one that was killed goes."""
    with store.alone(UPKEEP):
        store.delete(MARK)


class Deletion:
    """The right to delete what the mark names."""

    def __init__(self, store: Store, mark: bytes) -> None:
        self._store, self._mark = store, mark

    def delete_all(self, keys: Iterable[str], forget: Callable[[list[str]], None] | None = None) -> None:
        """Forget each of ``keys``, a block at a time, by ``forget`` where that is not the store's own way.

        Those of a pack go together: for every block that has one of its members it is written anew.

        Raises:
            TransientError: this process was away for so long that others took it for dead.
        """
        packs = self._store.packs
        todo = iter(sorted(keys, key=packs.order) if packs else keys)
        while block := list(islice(todo, _BLOCK)):
            if self._store.read(MARK) != self._mark:
                raise TransientError("another process took over while this one deleted; what it left goes next time")
            (forget or self._store.delete_all)(block)


@contextmanager
def deletion(store: Store, keys: Iterable[str] = ()) -> Iterator[Deletion]:
    """Mark ``keys``: no run begins in the block, and none takes up one of them unseen by a look at it in the block.

    The versions and refs that a look finds, and that others are gone, hold: no power cut brings one back that one who
    was killed had taken away, when what it named is deleted.
    """
    with store.alone(UPKEEP):
        mark = canonical_json({"by": uuid.uuid4().hex, "keys": list(keys)})
        store.replace(MARK, mark)
        try:
            for names in ("refs", "versions"):
                store.make_last(names)
            yield Deletion(store, mark)
        finally:
            store.delete(MARK)
