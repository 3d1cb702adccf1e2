"""The proof of an erasure: a look at everything that the store holds, made after it, that trusts nothing before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from pipeline_tasks.core.erasure.answers import Lost
from pipeline_tasks.core.erasure.search import holds, mentioned, parts_ahead, same_texts
from pipeline_tasks.core.store import Store

_TEXTS = ("versions", "refs", "memo", "requests", "responses", "receipts", "lineage/events")


@dataclass
class Findings:
    """What was looked at, and what was found in it.

    Attributes:
        looked: kind -> objects, or files of JSON, that were read.
        found: kind -> those in which an id, an address or a text still stands.
        where: some of their keys.
        same_texts: texts of other documents that equal one of it: nobody asked to erase these.
    """

    looked: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    where: list[str] = field(default_factory=list)
    same_texts: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found.total()

    def note(self, kind: str, key: str, found: bool) -> None:
        """``key`` was looked at."""
        self.looked[kind] += 1
        if found:
            self.found[kind] += 1
            self.where.append(key)


def prove(store: Store, ids: Collection[str], lost: Lost) -> Findings:
    """Look for ``ids`` and the texts of ``lost`` in every object and file of JSON but the list of erasures itself.

    A pack of which nobody can say what lies in it counts as one with a trace.
    """
    findings = Findings()
    entries = list(store.entries("objects"))
    for key in parts_ahead(store, entries):
        findings.note("objects", key, holds(store, key, ids))
        findings.same_texts += same_texts(store, key, lost.texts)
    findings.looked.update("files of models" for entry in entries if not entry.key.endswith(".parquet"))
    for pack in store.packs.unreadable() if store.packs else ():
        findings.note("packs that nobody can read, see `foundry check`", pack, True)
    for kind in _TEXTS:
        for key, data in store.read_all(store.keys(kind)):
            if not key.endswith(".f32"):
                found = bool(mentioned((data or b"").decode("utf-8", "replace"), ids))
                findings.note(kind, key, found or (kind == "responses" and lost.is_quoted(key, data)))
    return findings
