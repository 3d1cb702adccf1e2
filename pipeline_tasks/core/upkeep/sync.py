"""Copies a store, or some versions with all that they were made from, into another; either may be a bucket.

What a name leads to is copied before the name: objects first, manifests and refs last. So a copy that was cut off holds
no version that cannot be read, and the next one goes on where it stopped: what is there is not copied again. Objects
are checked against the sha256 that they are named by. Where both stores know a ref, the source decides; where both know
an erasure, the target gets the ids of both; where both have a ledger, the larger amounts; where both remember
something, all of it. Manifests and refs are read once: what was found complete is what is written, whatever becomes of
the source meanwhile. Batches on their way are read before answers are listed: what one has brought meanwhile is among
these. One whose answers either store has is not copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pipeline_tasks.core.erasure.listed import merge_erasures
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.growth_requests import refs_behind, requests_key
from pipeline_tasks.core.execution.remembered import PREFIX as REMEMBERED
from pipeline_tasks.core.execution.remembered import dataset_of, merge_remembered
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import PREVIOUS, Manifest, Ref
from pipeline_tasks.core.paid.batch_notes import is_taken_in
from pipeline_tasks.core.pins import UPKEEP
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import LOST, sha256_in
from pipeline_tasks.core.upkeep import ledgers
from pipeline_tasks.core.versions import manifest_key, refs, resolve

KINDS = (
    "erasures", "batches", "spending", "objects", "responses", "receipts", "lineage/events", "memo", REMEMBERED,
    "requests", "versions", "refs",
)  # fmt: skip
_WHOLE_STORE_ONLY = ("batches", "spending", "responses", "receipts", "memo")
_MUTABLE = ("erasures", "spending", REMEMBERED, "requests", "refs")
_THREADS = 8


@dataclass
class Synced:
    """What came of it: counts by kind, and what could not be copied, with the reason."""

    copied: Counter[str] = field(default_factory=Counter)
    there: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def sync(source: Store, target: Store, names: Sequence[str] = ()) -> Synced:
    """Copy into ``target`` what ``source`` has and it lacks; nothing is collected there meanwhile.

    Args:
        source: is only read.
        target: only gains, and its refs follow the source.
        names: ``DATASET`` or ``DATASET@VERSION``: only these versions and their ancestors; none copies everything.

    Raises:
        InputError: a name is not in the source.
    """
    with target.alone(UPKEEP):
        return _sync(source, target, names)


def _sync(source: Store, target: Store, names: Sequence[str]) -> Synced:
    meant = refs(source)
    manifests, judged = _manifests(source, names)
    judged |= {key: ref.version.encode() for key, ref in meant.items()}
    judged |= {key: data for key, data in source.read_all(source.keys("batches")) if data is not None}
    done = Synced()
    keys = {kind: list(source.keys(kind)) for kind in KINDS}
    if names:
        keys = _selected(keys, meant, manifests)
    held = {kind: set(target.keys(kind)) for kind in KINDS}
    for kind in KINDS:
        wanted = keys[kind]
        if kind == "versions":
            wanted = _by_age(source, _complete(manifests, held["objects"], done))
        elif kind == "refs":
            wanted = [key for key in wanted if key in meant and manifest_key(meant[key]) in held["versions"]]
        elif kind == "batches":
            answers = held["responses"].union(keys["responses"])
            wanted = [key for key in wanted if not is_taken_in(judged.get(key, b""), answers)]
        elif kind in _MUTABLE:
            judged |= {key: data for key, data in source.read_all(wanted) if data is not None}
        if kind in ("erasures", "spending", REMEMBERED):
            ours = {key: judged.pop(key) for key in wanted if key in judged}
            judged |= _together(target, kind, ours, done)
        todo = _missing(target, kind, wanted, held[kind], judged)
        done.there[kind] += len(wanted) - len(todo)
        for key in _copy_all(source, target, kind, todo, judged, done):
            held[kind].add(key)
            done.copied[kind] += 1
    return done


def _together(target: Store, kind: str, ours: dict[str, bytes], done: Synced) -> dict[str, bytes]:
    """Key -> what ``ours`` and the target's say together; one of which nobody can tell is a problem."""
    both = {}
    for key, theirs in target.read_all(ours):
        try:
            if kind == "erasures":
                both[key] = merge_erasures(ours[key], theirs)
            elif kind == "spending":
                both[key] = ledgers.merge_ledgers(key, ours[key], theirs)
            else:
                both[key] = merge_remembered(key, ours[key], theirs)
        except InputError as error:
            done.problems.append(str(error))
    return both


def _manifests(source: Store, names: Sequence[str]) -> tuple[dict[str, Manifest], dict[str, bytes]]:
    """Key -> manifest of every version to copy, and key -> the bytes that it was read from.

    One that was deleted since it was listed is left out.
    """
    found: dict[str, Manifest] = {}
    judged: dict[str, bytes] = {}
    known: dict[Any, Any] = {}
    meant = [resolve(source, Ref.parse(name)) for name in names]
    todo = [manifest_key(ref.of_rows) for ref in meant] or list(source.keys("versions"))
    while todo:
        asked, todo = [key for key in todo if key not in found], []
        for key, data in source.read_all(asked):
            if data is None:
                continue
            manifest = Manifest.read(data)
            if manifest is None:
                raise InputError(f"{key} in {source} is not a manifest; mend or delete it, and sync again")
            manifest.share(known)
            found[key], judged[key] = manifest, data
            if names:
                grown_from = map(Ref.parse, manifest.inputs.get(PREVIOUS, ()))
                parents = [*refs_behind(source, manifest, lambda ref: source.exists(manifest_key(ref))), *grown_from]
                todo += [key for key in map(manifest_key, parents) if source.exists(key)]
    return found, judged


def _by_age(source: Store, keys: Sequence[str]) -> list[str]:
    """``keys`` of manifests, the one that was written first in front."""
    written = {entry.key: entry.modified for entry in source.entries("versions")}
    return sorted(keys, key=lambda key: (written.get(key, 0.0), key))


def _selected(
    keys: dict[str, list[str]], meant: dict[str, Ref], manifests: dict[str, Manifest]
) -> dict[str, list[str]]:
    objects = {part.key for manifest in manifests.values() for part in manifest.objects}
    answered = {requests_key(manifest.ref) for manifest in manifests.values()}
    datasets = {manifest.dataset for manifest in manifests.values()}
    return keys | {kind: [] for kind in _WHOLE_STORE_ONLY} | {
        "objects": sorted(objects),
        REMEMBERED: [key for key in keys[REMEMBERED] if dataset_of(key) in datasets],
        "requests": [key for key in keys["requests"] if key in answered],
        "refs": [key for key in keys["refs"] if key in meant and manifest_key(meant[key]) in manifests],
    }  # fmt: skip


def _complete(manifests: dict[str, Manifest], objects: set[str], done: Synced) -> list[str]:
    """Versions whose objects are all there; the others are problems."""
    whole = []
    for key, manifest in manifests.items():
        lacking = [part.key for part in manifest.objects if part.key not in objects]
        if lacking:
            done.problems.append(f"{manifest.ref} is not copied: {lacking[0]} is not there")
        else:
            whole.append(key)
    return whole


def _missing(target: Store, kind: str, wanted: list[str], held: set[str], judged: dict[str, bytes]) -> list[str]:
    if kind not in _MUTABLE:
        return [key for key in wanted if key not in held]
    theirs = dict(target.read_all(key for key in wanted if key in held))
    return [key for key in wanted if key in judged and judged[key] != theirs.get(key)]


def _copy_all(
    source: Store, target: Store, kind: str, keys: list[str], judged: dict[str, bytes], done: Synced
) -> list[str]:
    """The keys that were copied; what cannot be is a problem, and the others go on.

    Manifests go one after another: what was written later in the source is so in the target. Objects that lie side by
    side in a pack come with one request.
    """
    copied, packs = [], source.packs if kind == "objects" else None
    runs = [[place.key for place in run] for run in packs.runs(keys)] if packs else []
    packed = set(chain.from_iterable(runs))
    runs += [[key] for key in keys if key not in packed]

    def attempt(key: str, data: bytes | None) -> str:
        try:
            if kind == "objects":
                _copy_object(source, target, key, data)
            else:
                _write(target, kind, key, judged[key] if key in judged else source.read(key))
        except InputError as error:
            return str(error)
        return ""

    def attempt_all(run: list[str]) -> list[tuple[str, str]]:
        data = dict(chain.from_iterable(map(packs.read_run, packs.runs(run)))) if packs else {}
        return [(key, attempt(key, data.get(key))) for key in run]

    threads = 1 if kind == "versions" else _THREADS
    with meter(f"sync {kind}", len(keys), "keys") as progress, ThreadPoolExecutor(threads) as pool:
        for key, problem in chain.from_iterable(pool.map(attempt_all, runs)):
            if problem:
                done.problems.append(problem)
            else:
                copied.append(key)
            progress.advance()
    return copied


def _copy_object(source: Store, target: Store, key: str, data: bytes | None) -> None:
    """From ``data``, where its bytes are here already."""
    with target.temporary() as path:
        if data is None:
            source.copy_to(key, path)
        else:
            path.write_bytes(data)
        got = file_sha256(path)
        if got != sha256_in(key):
            raise InputError(f"{key} in {source} is corrupted, its sha256 is {got}; {LOST}")
        target.create_from(key, path)


def _write(target: Store, kind: str, key: str, data: bytes | None) -> None:
    if data is None:
        return
    if kind == "spending":
        ledgers.add(target, key, data)
    else:
        (target.replace if kind in _MUTABLE else target.create)(key, data)
