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
    return short_id("erasure", sorted(asked))


def lasting(ids: Iterable[str]) -> frozenset[str]:
    """Those that are ids or sha256: all that may be kept."""
    return frozenset(i for i in ids if _ID.fullmatch(i))


def note(store: Store, erasure: Erasure) -> None:
    """Keep the list; from now on what is on it is refused where it would enter."""
    store.replace(f"{PREFIX}/{erasure.name}.json", canonical_json(vars(erasure) | {"ids": sorted(erasure.ids)}))


def erasures(store: Store) -> Iterator[Erasure]:
    """Every erasure of the store."""
    for _, data in store.read_all(store.keys(PREFIX)):
        try:
            yield Erasure.model_validate_json(data or b"")
        except ValidationError:
            continue


def erased_ids(store: Store) -> frozenset[str]:
    """Everything that was erased, by id or sha256: a step through which rows enter refuses it as :data:`REASON`."""
    return frozenset().union(*(erasure.ids for erasure in erasures(store)))
