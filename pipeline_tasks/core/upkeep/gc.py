"""Finds and drops what no kept version needs. Versions, memo, pins and paid answers decide; events are never dropped.

Safe beside running steps, see :mod:`pipeline_tasks.core.pins`: what is found is marked, and dropped only where it is
found once more after that. A memo record keeps its parts, which is what lets a killed run resume; ``memo=True`` gives
up the records whose output no kept version names, as long as no step runs.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.events import built_and_used
from pipeline_tasks.core.execution.growth_requests import refs_behind, requests_key
from pipeline_tasks.core.execution.headway import MARKS
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.pins import deletion, living_pins
from pipeline_tasks.core.removals import PREFIX as POSITIONS
from pipeline_tasks.core.removals import positions_keys
from pipeline_tasks.core.store import TEMPORARY, Entry, Store
from pipeline_tasks.core.versions import manifest_key, refs

log = logging.getLogger(__name__)
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
GRACE_S = DAY_S
TEMPORARY_S = HOUR_S
SCRATCH_S = 7 * DAY_S
ANSWER_LOCKS = "locks/answer-"


@dataclass
class Sweep:
    """What can be dropped, by kind, and the bytes of each kind.

    Attributes:
        asked: what :func:`find_garbage` was asked with.
        found_at: when, in seconds since 1970.
        entries: kind -> what the store holds, in the order in which it is dropped: versions, requests, positions,
            memo, objects, locks, headway.
        paths: kind -> leftovers in this machine's folder of the store: temporary, scratch.
        size_bytes: kind -> bytes.
    """

    asked: dict[str, Any]
    found_at: float
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    paths: dict[str, list[Path]] = field(default_factory=dict)
    size_bytes: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, entries: Iterable[Entry]) -> None:
        """Note what the store holds as ``kind``."""
        found = self.entries[kind] = list(entries)
        self.size_bytes[kind] = sum(entry.size_bytes for entry in found)

    def add_local(self, kind: str, paths: Iterable[Path]) -> None:
        """Note what this machine holds as ``kind``."""
        self.paths[kind] = sorted(paths)
        self.size_bytes[kind] = sum(_size(path) for path in self.paths[kind])

    @property
    def keys(self) -> dict[str, list[str]]:
        """Kind -> keys of what the store holds."""
        return {kind: [entry.key for entry in found] for kind, found in self.entries.items()}

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        found: dict[str, Sized] = {**self.entries, **self.paths}
        return {kind: len(items) for kind, items in found.items()}


def find_garbage(
    store: Store,
    *,
    keep: int | None = None,
    keep_s: float | None = None,
    memo: bool = False,
    grace_s: float = GRACE_S,
) -> Sweep:
    """What a :func:`drop` would drop.

    Args:
        store: the store.
        keep: this many newest versions per dataset, what a ref names or a running step needs, and all their ancestors.
            A version is as old as its manifest, or as the event of the run that built it where that is older.
            What a version of a growing dataset grew from is none of these: it holds all parts itself. Nor is what it
            was made of, where a later request read something else and changed nothing: what that read stays instead.
        keep_s: seconds; like ``keep`` for versions younger than this; a version stays that either keeps, with neither
            all stay.
        memo: also give up memo records whose output no kept version names, unless steps run. They are what resumes a
            killed run.
        grace_s: seconds; nothing younger is dropped (temporaries: an hour, scratch folders: seven days), no version
            that a run has found since, and no part or temporary that is younger than a step that runs.

    Raises:
        InputError: a manifest cannot be read, so nobody knows what it needs.
    """
    asked = {"keep": keep, "keep_s": keep_s, "memo": memo, "grace_s": grace_s}
    now, here = store.now(), time.time()
    running = living_pins(store)
    old = min([now - grace_s, *(run.since for run in running)])
    sweep = Sweep(asked, here)
    written = {entry.key: entry for entry in store.entries("versions")}
    manifests = manifests_at(store, written)
    all_stay = keep is None and keep_s is None
    grace, young = now - grace_s, now - (keep_s or 0)
    needed = [ref for run in running for ref in run.refs]
    kept = set(manifests) if all_stay else _versions_to_keep(store, manifests, written, keep or 0, grace, young, needed)
    sweep.add("versions", (written[manifest_key(ref)] for ref in manifests if ref not in kept))
    answered = {requests_key(ref) for ref in kept}
    sweep.add("requests", (entry for entry in store.entries("requests") if entry.key not in answered))
    wanted = {part.key for ref in kept for part in manifests[ref].objects}
    known = positions_keys(manifests[ref] for ref in kept)
    looked_up = (entry for entry in store.entries(POSITIONS) if entry.key not in known)
    sweep.add("positions", (entry for entry in looked_up if entry.modified < old))
    objects = list(store.entries("objects"))
    dead = _dead_memo(store, {entry.key for entry in objects}, wanted, give_up=memo and not running, old=old)
    sweep.add("memo", dead)
    useless = [entry for entry in objects if entry.key not in wanted and entry.modified < old]
    sweep.add("objects", store.packs.freed_by(useless) if store.packs else useless)
    # Of answers alone, which are held for minutes: in a folder the age of a lock says nothing of its holder.
    locks = (entry for entry in store.entries("locks") if entry.key.startswith(ANSWER_LOCKS))
    sweep.add("locks", (entry for entry in locks if entry.modified < old))
    sweep.add("headway", (entry for entry in store.entries(MARKS) if entry.modified < now - SCRATCH_S))
    done_with = min([here - TEMPORARY_S, *(run.since - HOUR_S for run in running)])  # an hour: a pin has another clock
    sweep.add_local("temporary", (p for p in _children(store.folder / TEMPORARY) if _older(p, done_with)))
    sweep.add_local("scratch", (p for p in _children(store.scratches) if _older(p, here - SCRATCH_S)))
    return sweep


def drop(store: Store, sweep: Sweep) -> int:
    """Drop what is in ``sweep`` and still garbage; the bytes of that.

    Names go before what they name, so that a kill leaves none dangling.
    """
    dropped: Counter[str] = Counter()
    size_bytes = 0
    with deletion(store, (key for keys in sweep.keys.values() for key in keys)) as right:
        still = find_garbage(store, **sweep.asked).keys
        for kind, entries in sweep.entries.items():
            there = set(still[kind])
            going = [entry for entry in entries if entry.key in there]
            right.delete_all(entry.key for entry in going)
            dropped[kind] += len(going)
            size_bytes += sum(entry.size_bytes for entry in going)
    for kind, paths in sweep.paths.items():
        for path in paths:
            if not _older(path, sweep.found_at):
                continue
            dropped[kind] += 1
            size_bytes += _size(path)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    log.info(
        "dropped %s, %d bytes", ", ".join(f"{n} {kind}" for kind, n in dropped.items() if n) or "nothing", size_bytes
    )
    return size_bytes


def manifests_at(store: Store, keys: Iterable[str]) -> dict[Ref, Manifest]:
    """The manifests with these keys, in this order; not of those that were deleted since they were listed.

    Raises:
        InputError: one cannot be read, or is of another version than its key.
    """
    found, known = {}, dict[Any, Any]()
    for key, data in store.read_all(keys):
        if data is None:
            continue
        manifest = Manifest.read(data)
        if manifest is None:
            raise InputError(f"{key} is not a manifest; nothing was dropped. Mend or delete that file")
        if manifest_key(manifest.ref) != key:
            raise InputError(f"{key} calls itself {manifest.ref}; nothing was dropped. Mend or delete that file")
        manifest.share(known)
        found[manifest.ref] = manifest
    return found


def _versions_to_keep(
    store: Store,
    manifests: dict[Ref, Manifest],
    written: dict[str, Entry],
    keep: int,
    grace: float,
    young: float,
    needed: list[Ref],
) -> set[Ref]:
    """The ``keep`` newest of each dataset, what was built after ``young``, named or ``needed``, and their ancestors.

    And what was written after ``grace``, whenever it was built, or was found by a run after it: the next one reads it.
    """
    at = {ref: written[manifest_key(ref)].modified for ref in manifests}
    built, used = built_and_used(store)
    when = {ref: min(moment, built.get(str(ref), moment)) for ref, moment in at.items()}
    fresh = {ref for ref in manifests if max(at[ref], used.get(str(ref), 0.0)) > grace}
    todo = [*needed, *fresh, *(ref for ref in manifests if when[ref] > young)]
    for dataset in {ref.dataset for ref in manifests}:
        mine = sorted((r for r in manifests if r.dataset == dataset), key=lambda r: (-when[r], r.version))
        todo += mine[:keep]
    todo += refs(store).values()
    kept: set[Ref] = set()
    while todo:
        ref = todo.pop().of_rows
        if ref in manifests and ref not in kept:
            kept.add(ref)
            todo += refs_behind(store, manifests[ref], manifests.__contains__)
    return kept


def _dead_memo(store: Store, objects: set[str], wanted: set[str], *, give_up: bool, old: float) -> list[Entry]:
    """Memo records that nobody needs; the outputs of all others are added to ``wanted``."""
    entries = list(store.entries("memo"))
    dead = []
    for entry, (_, data) in zip(entries, store.read_all(entry.key for entry in entries), strict=True):
        outputs = _outputs(data)
        useless = not outputs or not objects.issuperset(outputs) or (give_up and not wanted.issuperset(outputs))
        if useless and entry.modified < old:
            dead.append(entry)
        else:
            wanted.update(outputs)
    return dead


def _outputs(record: bytes | None) -> list[str]:
    """Keys of the parts that a memo record names; none where it is not a record."""
    found = Record.read(record)
    return [part.key for part in found.made] if found else []


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _files(path: Path) -> list[Path]:
    return [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]


def _older(path: Path, moment: float) -> bool:
    """Whether ``path``, and for a folder everything in it, was last written before ``moment``."""
    try:
        return all(p.stat().st_mtime < moment for p in [path, *_files(path)])
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in _files(path) if p.is_file())
