"""Compares every object with the sha256 that it is named by, finds what rests on those that are lost, and forgets that.

Reading does not verify: parts are opened where they lie. A version whose part is lost stands in the way of its own
remedy, because its step finds it made, and bytes that are there are never written again. So both have to go first; the
memo needs no care, since a record without its output is no hit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from pipeline_tasks.core.execution.growth_requests import requests_key
from pipeline_tasks.core.manifest import PREVIOUS, Manifest, Ref
from pipeline_tasks.core.pins import Deletion, deletion
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.store import Entry, Store
from pipeline_tasks.core.store.protocol import sha256_in
from pipeline_tasks.core.upkeep.gc import manifests_at
from pipeline_tasks.core.versions import manifest_key, refs

log = logging.getLogger(__name__)
_THREADS = 4
MISSING = "missing"


@dataclass(frozen=True)
class Damage:
    """What a store has lost.

    Attributes:
        objects: key -> what is wrong with it.
        versions: those that need one of these, in the order in which they were made.
        refs: key of a ref that names one of these versions -> the last whole version that it grew from, if any.
        checked: how many objects were looked at.
    """

    objects: dict[str, str]
    versions: list[Manifest]
    refs: dict[str, Ref | None]
    checked: int

    @property
    def steps(self) -> list[str]:
        """The steps that make the versions again, in order."""
        return list(dict.fromkeys(manifest.step for manifest in self.versions))


def find_damage(store: Store, *, quick: bool = False, among: Collection[str] | None = None) -> Damage:
    """Every object whose bytes are not those it is named by, and every one that a version names and the store lacks.

    And every pack of which nobody can say what lies in it: nothing of it is to be had.

    Args:
        store: the store.
        quick: compare sizes only; nothing is read.
        among: look at no other objects; None is all.

    Raises:
        InputError: a manifest cannot be read, so nobody knows what it needs.
    """
    written = sorted(store.entries("versions"), key=lambda entry: (entry.modified, entry.key))
    manifests = manifests_at(store, (entry.key for entry in written))
    needed = {part.key: part.size_bytes for manifest in manifests.values() for part in manifest.objects}
    held = {entry.key: entry for entry in store.entries("objects")}
    if among is not None:
        needed = {key: size for key, size in needed.items() if key in among}
        held = {key: entry for key, entry in held.items() if key in among}
    gone = needed.keys() - held.keys()
    lost = dict.fromkeys(sorted(gone - store.present(gone)), MISSING)  # one may move into a pack beside the listing
    for key in sorted(needed.keys() & held.keys()):
        if held[key].size_bytes != needed[key]:
            lost[key] = f"{held[key].size_bytes:,} bytes instead of {needed[key]:,}"
    if not quick:
        lost |= _corrupted(store, [entry for key, entry in held.items() if key not in lost])
    packs = store.packs.unreadable() if store.packs else []
    lost |= {key: "the list of what lies in it is damaged" for key in packs if among is None or key in among}
    if MISSING in lost.values():  # unless a collection has dropped all versions of it beside this
        there = set(store.keys("versions"))
        manifests = {ref: manifest for ref, manifest in manifests.items() if manifest_key(ref) in there}
        named = {part.key for manifest in manifests.values() for part in manifest.objects}
        lost = {key: wrong for key, wrong in lost.items() if wrong != MISSING or key in named}
    broken = {ref for ref, manifest in manifests.items() if any(part.key in lost for part in manifest.objects)}
    versions = [manifest for ref, manifest in manifests.items() if ref in broken]
    return Damage(lost, versions, _refs(store, manifests, broken), len(held.keys() | needed.keys()))


def _corrupted(store: Store, entries: list[Entry]) -> dict[str, str]:
    found = {}
    with meter("check", sum(entry.size_bytes for entry in entries) >> 20, "MiB") as progress:
        with ThreadPoolExecutor(_THREADS) as pool:
            seen = 0
            for entry, wrong in zip(entries, pool.map(partial(_wrong, store), entries), strict=True):
                if wrong:
                    found[entry.key] = wrong
                seen += entry.size_bytes
                progress.advance((seen >> 20) - progress.done)
    return found


def _wrong(store: Store, entry: Entry) -> str:
    """What is wrong with the bytes of an object; nothing where they are whole."""
    try:
        got = store.sha256(entry.key)
    except OSError as error:
        return f"cannot be read ({error})"
    return "" if got == sha256_in(entry.key) else f"its sha256 is {got}" if got else MISSING


def _refs(store: Store, manifests: dict[Ref, Manifest], broken: set[Ref]) -> dict[str, Ref | None]:
    found: dict[str, Ref | None] = {}
    for key, meant in refs(store).items():
        if meant not in broken:
            continue
        ref: Ref | None = meant
        while ref in broken:
            before = manifests[ref].inputs.get(PREVIOUS)
            ref = Ref.parse(before[0]) if before else None
        found[key] = ref if ref in manifests else None
    return found


def drop_damage(store: Store, damage: Damage, *, quick: bool = False) -> Damage:
    """:func:`forget` what a second look still finds of ``damage``, as nobody else deletes; what that was."""
    with deletion(store, damage.objects) as right:
        still = find_damage(store, quick=quick, among=damage.objects)
        forget(store, still, right)
    return still


def forget(store: Store, damage: Damage, right: Deletion | None = None) -> None:
    """Drop what is damaged and every version that needs it; names go before what they name. For when no step runs."""
    going = right or store
    for key, ref in damage.refs.items():
        if ref:
            store.replace(key, ref.version.encode())
        else:
            store.delete(key)
    gone: Iterable[Ref] = [manifest.ref for manifest in damage.versions]
    going.delete_all(key for ref in gone for key in (manifest_key(ref), requests_key(ref)))
    going.delete_all(damage.objects)
    log.info("dropped %d objects, %d versions", len(damage.objects), len(damage.versions))
