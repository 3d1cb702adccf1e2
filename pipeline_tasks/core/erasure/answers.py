"""Stored answers that an erasure takes, and no others: the rest was paid for, and is not bought again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from pipeline_tasks.core.erasure.search import anchors, mentioned, quotes
from pipeline_tasks.core.execution.memo import RECEIPTS
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.paid import text_index
from pipeline_tasks.core.paid.response_store import answer_key
from pipeline_tasks.core.pins import Deletion
from pipeline_tasks.core.store import Store


@dataclass
class Lost:
    """What rows that go lead to.

    Attributes:
        touched: sha256 of the parts that lose rows.
        named: answers that these rows name.
        texts: long ones of these rows, by which any answer is known that has one.
        short: the others of several words, by which answers are known that these parts were paid with.
        brief: those of one word or a few letters, by which such answers are known that have one as a line.
        others: such of rows that stay: a label, or a word that others have as well, tells of no row.
        paid: answers that these parts were paid with.
    """

    touched: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    brief: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    paid: set[str] = field(default_factory=set)

    @cached_property
    def _pieces(self) -> set[str]:
        return anchors(self.texts)

    def is_quoted(self, key: str, data: bytes | None) -> bool:
        """Whether the answer ``key`` quotes one of these rows."""
        if _id(key) in self.paid:
            return quotes(data, self._pieces | self.short, self.brief - self.others)
        return quotes(data, self._pieces)


def of_rows(store: Store, lost: Lost, ids: set[str]) -> list[str]:
    """Keys of answers that lost rows name or that quote their texts, and of vectors bought for their parts.

    What is stored of vectors has no text that tells whose they are.

    Args:
        store: where they are.
        lost: what the rows that go lead to.
        ids: everything that goes, by id or address.
    """
    keys = list(store.keys("responses"))
    vectors = {_id(key) for key in keys if key.endswith(".f32")}
    lost.paid = {answer for answers in receipts(store, lost.touched).values() for answer in answers}
    named = lost.named | (lost.paid & vectors)
    gone = []
    for key, data in store.read_all(key for key in keys if key.endswith(".json")):
        if _id(key) in named or lost.is_quoted(key, data) or mentioned((data or b"").decode("utf-8", "replace"), ids):
            gone.append(key)
    return gone


def receipts(store: Store, parts: Iterable[str]) -> dict[str, list[str]]:
    """Key of a receipt -> the answers that this part, of these sha256, was paid with."""
    read = store.read_all(f"{RECEIPTS}/{sha256}.json" for sha256 in parts)
    return {key: json.loads(data)["responses"] for key, data in read if data}


def forget(store: Store, gone: Collection[str], right: Deletion) -> None:
    """Delete these answers and their vectors."""
    right.delete_all(text_index.forget(store, set(map(_id, gone))))
    right.delete_all([*gone, *(f"{key[:-5]}.f32" for key in gone)])


def hand_on(store: Store, became: Mapping[str, Part], right: Deletion) -> None:
    """Let the parts that others became be paid with the answers that are left of theirs."""
    found, left = receipts(store, became), dict[str, set[str]]()
    for key, answers in found.items():
        if (part := became[_id(key)]).rows:
            left.setdefault(part.sha256, set()).update(answers)
    for sha256, some in left.items():
        paid = {answer_key(one): one for one in some.union(*receipts(store, [sha256]).values())}
        if stay := sorted(paid[key] for key in store.present(paid)):
            store.replace(f"{RECEIPTS}/{sha256}.json", canonical_json({"responses": stay}))
    right.delete_all(found.keys() - {f"{RECEIPTS}/{sha256}.json" for sha256 in left})


def _id(key: str) -> str:
    return PurePosixPath(key).stem
