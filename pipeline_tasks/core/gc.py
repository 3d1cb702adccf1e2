"""Finds and drops what no kept version needs. Versions, memo and paid answers decide; events are never dropped.

Safe beside running steps because of two rules. Nothing younger than the grace period is dropped: a part is written, or
written again, before the manifest or memo record that names it. A memo record keeps its parts, which is what lets a
killed run resume; only ``memo=True`` gives up the records whose output no kept version names: use it when no step runs.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import REJECTS_SUFFIX, Manifest, Ref
from pipeline_tasks.core.memo import Record
from pipeline_tasks.core.requests import requests_key
from pipeline_tasks.core.store import TEMPORARY, LocalStore
from pipeline_tasks.core.versions import manifest_key

log = logging.getLogger(__name__)
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
GRACE_S = DAY_S
TEMPORARY_S = HOUR_S
SCRATCH_S = 7 * DAY_S


@dataclass
class Sweep:
    """What can be dropped: kind -> paths in the order in which they are dropped, and the bytes of each kind.

    Kinds: versions, requests, memo, objects, temporary, scratch, claims. What is written anew after ``found_at`` (Unix
    seconds) is in use again and stays.
    """

    found_at: float
    paths: dict[str, list[Path]] = field(default_factory=dict)
    size_bytes: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, paths: Iterable[Path]) -> None:
        """Note ``paths`` under ``kind``."""
        found = sorted(paths)
        self.paths[kind] = found
        self.size_bytes[kind] = sum(_size(p) for p in found)


def find_garbage(
    store: LocalStore,
    *,
    keep: int | None = None,
    keep_s: float | None = None,
    memo: bool = False,
    grace_s: float = GRACE_S,
) -> Sweep:
    """What a :func:`drop` would drop.

    Args:
        store: the store.
        keep: this many newest versions per dataset, what a ref names, and all their ancestors.
        keep_s: seconds; versions younger than this, what a ref names, and all their ancestors. With ``keep`` a version
            stays that either keeps; with neither all stay.
        memo: also give up memo records whose output no kept version names. They are what resumes a killed run.
        grace_s: seconds; nothing younger is dropped (temporaries: an hour, scratch folders: seven days).

    Raises:
        InputError: a manifest cannot be read, so nobody knows what it needs.
    """
    now = time.time()
    sweep = Sweep(now)
    manifests = _manifests(store)
    all_stay = keep is None and keep_s is None
    kept = set(manifests) if all_stay else _kept(store, manifests, keep or 0, now - max(grace_s, keep_s or 0))
    sweep.add("versions", (store.root / manifest_key(ref) for ref in manifests if ref not in kept))
    requests = {store.root / key for key in store.keys("requests")}
    sweep.add("requests", requests - {store.root / requests_key(ref) for ref in kept})
    wanted = {part.key for ref in kept for part in manifests[ref].objects}
    dead_memo = []
    for key in store.keys("memo"):
        outputs = _outputs(store, key)
        gone = not all((store.root / k).is_file() for k in outputs)
        if _older(store.root / key, now - grace_s) and (not outputs or gone or (memo and not set(outputs) <= wanted)):
            dead_memo.append(store.root / key)
        else:
            wanted.update(outputs)
    sweep.add("memo", dead_memo)
    objects = (store.root / key for key in store.keys("objects") if key not in wanted)
    sweep.add("objects", (p for p in objects if _older(p, now - grace_s)))
    sweep.add("temporary", (p for p in _children(store, TEMPORARY) if _older(p, now - TEMPORARY_S)))
    sweep.add("scratch", (p for p in _children(store, "scratch") if _older(p, now - SCRATCH_S)))
    claims = (store.root / key for key in store.keys("responses") if not key.endswith(".json"))
    sweep.add("claims", (p for p in claims if _older(p, now - grace_s)))
    return sweep


def drop(sweep: Sweep) -> None:
    """Drop everything in ``sweep``: names before what they name, so that a kill in between leaves no dangling name."""
    for kind, paths in sweep.paths.items():
        for path in paths:
            if not _older(path, sweep.found_at):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        log.info("dropped %d %s, %d bytes", len(paths), kind, sweep.size_bytes[kind])


def _manifests(store: LocalStore) -> dict[Ref, Manifest]:
    found = {}
    for key in store.keys("versions"):
        try:
            manifest = Manifest.model_validate_json(store.read(key) or b"")
        except ValidationError as error:
            raise InputError(f"{key} is not a manifest; nothing was dropped. Mend or delete that file") from error
        found[manifest.ref] = manifest
    return found


def _kept(store: LocalStore, manifests: dict[Ref, Manifest], keep: int, young: float) -> set[Ref]:
    """The ``keep`` newest of each dataset, what refs name, what is younger than ``young``, and their ancestors."""
    written = {ref: (store.root / manifest_key(ref)).stat().st_mtime for ref in manifests}
    todo = [ref for ref, when in written.items() if when > young]
    for dataset in {ref.dataset for ref in manifests}:
        mine = sorted((r for r in manifests if r.dataset == dataset), key=lambda r: (-written[r], r.version))
        todo += mine[:keep]
    for key in store.keys("refs"):
        dataset = key.removeprefix("refs/").rpartition("/")[0]
        todo.append(Ref(dataset=dataset, version=(store.read(key) or b"").decode()))
    kept: set[Ref] = set()
    while todo:
        ref = todo.pop()
        ref = Ref(dataset=ref.dataset.removesuffix(REJECTS_SUFFIX), version=ref.version)
        if ref in manifests and ref not in kept:
            kept.add(ref)
            todo += [Ref.parse(name) for names in manifests[ref].inputs.values() for name in names]
    return kept


def _outputs(store: LocalStore, key: str) -> list[str]:
    """Keys of the parts that a memo record names; none where it is not a record."""
    try:
        record = Record.model_validate(json.loads(store.read(key) or b"null"))
    except (ValidationError, ValueError):
        return []
    return [part.key for part in (record.output, record.rejects) if part]


def _children(store: LocalStore, folder: str) -> list[Path]:
    top = store.root / folder
    return list(top.iterdir()) if top.is_dir() else []


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
