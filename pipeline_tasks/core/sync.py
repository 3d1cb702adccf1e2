"""Copies a store, or some versions with all that they were made from, into another; either may be a bucket.

What a name leads to is copied before the name: objects first, manifests and refs last. So a copy that was cut off holds
no version that cannot be read, and the next one goes on where it stopped: what is there is not copied again. Objects
are checked against the sha256 that they are named by. Where both stores know a ref, the source decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import REJECTS_SUFFIX, Manifest, Ref
from pipeline_tasks.core.pins import UPKEEP
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.requests import requests_key
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import LOST, sha256_in
from pipeline_tasks.core.versions import manifest_key, refs, resolve

KINDS = ("erasures", "objects", "responses", "receipts", "lineage/events", "memo", "requests", "versions", "refs")
_WHOLE_STORE_ONLY = ("responses", "receipts", "memo")
_MUTABLE = ("erasures", "requests", "refs")
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
    manifests = _manifests(source, names)
    done = Synced()
    keys = {kind: list(source.keys(kind)) for kind in KINDS}
    if names:
        keys = _selected(keys, source, manifests)
    held = {kind: set(target.keys(kind)) for kind in KINDS}
    for kind in KINDS:
        wanted = keys[kind]
        if kind == "versions":
            wanted = _complete(manifests, held["objects"], done)
        elif kind == "refs":
            meant = refs(source)
            wanted = [key for key in wanted if key in meant and manifest_key(meant[key]) in held["versions"]]
        todo = _missing(source, target, kind, wanted, held[kind])
        done.there[kind] += len(wanted) - len(todo)
        for key in _copy_all(source, target, kind, todo, done):
            held[kind].add(key)
            done.copied[kind] += 1
    return done


def _manifests(source: Store, names: Sequence[str]) -> dict[str, Manifest]:
    """Key -> manifest of every version to copy."""
    found: dict[str, Manifest] = {}
    todo = [manifest_key(resolve(source, Ref.parse(name))) for name in names] or list(source.keys("versions"))
    while todo:
        asked, todo = [key for key in todo if key not in found], []
        for key, data in source.read_all(asked):
            manifest = Manifest.read(data)
            if manifest is None:
                raise InputError(f"{key} in {source} is not a manifest; mend or delete it, and sync again")
            found[key] = manifest
            parents = (Ref.parse(name) for inputs in manifest.inputs.values() for name in inputs) if names else ()
            base = (Ref(dataset=r.dataset.removesuffix(REJECTS_SUFFIX), version=r.version) for r in parents)
            todo += [key for key in map(manifest_key, base) if source.exists(key)]
    return found


def _selected(keys: dict[str, list[str]], source: Store, manifests: dict[str, Manifest]) -> dict[str, list[str]]:
    objects = {part.key for manifest in manifests.values() for part in manifest.objects}
    answered = {requests_key(manifest.ref) for manifest in manifests.values()}
    meant = refs(source)
    return keys | {kind: [] for kind in _WHOLE_STORE_ONLY} | {
        "objects": sorted(objects),
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


def _missing(source: Store, target: Store, kind: str, wanted: list[str], held: set[str]) -> list[str]:
    if kind not in _MUTABLE:
        return [key for key in wanted if key not in held]
    ours, theirs = dict(source.read_all(wanted)), dict(target.read_all(key for key in wanted if key in held))
    return [key for key in wanted if ours[key] is not None and ours[key] != theirs.get(key)]


def _copy_all(source: Store, target: Store, kind: str, keys: list[str], done: Synced) -> list[str]:
    """The keys that were copied; what cannot be is a problem, and the others go on."""
    copy: Callable[[Store, Store, str], None] = _copy_object if kind == "objects" else _copy_small
    copied = []

    def attempt(key: str) -> str:
        try:
            copy(source, target, key)
        except InputError as error:
            return str(error)
        return ""

    with meter(f"sync {kind}", len(keys), "keys") as progress, ThreadPoolExecutor(_THREADS) as pool:
        for key, problem in zip(keys, pool.map(attempt, keys), strict=True):
            if problem:
                done.problems.append(problem)
            else:
                copied.append(key)
            progress.advance()
    return copied


def _copy_object(source: Store, target: Store, key: str) -> None:
    with target.temporary() as path:
        source.copy_to(key, path)
        got = file_sha256(path)
        if got != sha256_in(key):
            raise InputError(f"{key} in {source} is corrupted, its sha256 is {got}; {LOST}")
        target.create_from(key, path)


def _copy_small(source: Store, target: Store, key: str) -> None:
    data = source.read(key)
    if data is not None:
        (target.replace if key.startswith(_MUTABLE) else target.create)(key, data)
