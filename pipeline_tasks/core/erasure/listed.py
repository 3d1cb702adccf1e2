"""What was erased, by id: it must not come back, and an erasure that was killed is finished by its list.

Only ids and sha256 are kept, never an address or a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_tasks.core.ids import canonical_json, short_id
from pipeline_tasks.core.store import Store

PREFIX = "erasures"
REASON = "erased"
_ID = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{48})?")


class Erasure(BaseModel):
    """One erasure.

    Attributes:
        name: of what was asked for; the same request has the same name.
        ids: of every row that it takes away, and sha256 of bytes that must not come back.
        done: whether all of it was carried out and proved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    ids: frozenset[str]
    done: bool = False


def name_of(asked: Iterable[str]) -> str:
    """The name of an erasure of ``asked``."""
    return short_id("erasure", sorted({*asked}))


def lasting(ids: Iterable[str]) -> frozenset[str]:
    """Those that are ids or sha256: all that may be kept."""
    return frozenset(i for i in ids if _ID.fullmatch(i))


def note(store: Store, erasure: Erasure) -> None:
    """Keep the list; from now on what is on it is refused where it would enter."""
    store.replace(f"{PREFIX}/{erasure.name}.json", _bytes(erasure))


def _bytes(erasure: Erasure) -> bytes:
    return canonical_json(vars(erasure) | {"ids": sorted(erasure.ids)})


def _parsed(data: bytes | None) -> Erasure | None:
    try:
        return Erasure.model_validate_json(data or b"")
    except ValidationError:
        return None


def merge_erasures(one: bytes, other: bytes | None) -> bytes:
    """What two stores say of one erasure, as one list: it has the ids of both, and is done where it is in both.

    Of a list that cannot be read the other stays.
    """
    ours, theirs = _parsed(one), _parsed(other)
    if other is None or theirs is None:
        return one
    if ours is None:
        return other
    return _bytes(ours.model_copy(update={"ids": ours.ids | theirs.ids, "done": ours.done and theirs.done}))


def erasures(store: Store) -> Iterator[Erasure]:
    """Every erasure of the store."""
    for _, data in store.read_all(store.keys(PREFIX)):
        if erasure := _parsed(data):
            yield erasure


def erased_ids(store: Store) -> frozenset[str]:
    """Everything that was erased, by id or sha256: a step through which rows enter refuses it as :data:`REASON`."""
    return frozenset().union(*(erasure.ids for erasure in erasures(store)))
