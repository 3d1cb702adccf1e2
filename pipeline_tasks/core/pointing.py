"""Moving a name by hand: back to a sound version, or as a bookmark. The lineage tells who moved it, and from where."""

from __future__ import annotations

import os
import platform
import pwd
from dataclasses import dataclass
from functools import partial

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.execution.growth_requests import CHANGE, refs_behind
from pipeline_tasks.core.execution.latest import forget_notes
from pipeline_tasks.core.manifest import LATEST, REJECTS_SUFFIX, Ref
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import ID, load_manifest, manifest_key, point, ref_key, resolve

JOB = "point"


@dataclass(frozen=True)
class Move:
    """One name that was told to mean ``ref``; ``before`` is the version that it meant, empty where there was none."""

    ref: Ref
    name: str
    before: str


def move(store: Store, ref: Ref, name: str = LATEST, *, ancestors: bool = False) -> list[Move]:
    """Let ``name`` of its dataset mean ``ref``, and tell the lineage.

    Args:
        store: where it is.
        ref: a version that is there.
        name: the name.
        ancestors: let it also mean, of every dataset behind ``ref``, the version that ``ref`` was made from.

    Returns:
        What was moved, ``ref`` last; of an ancestor that already had the name there is nothing to say.

    Raises:
        InputError: the version is not there, the name is none, or ``ref`` was made from two versions of one dataset.
    """
    if ref.dataset.endswith(REJECTS_SUFFIX):
        raise InputError(f"{ref}: rejects go with their dataset; point {ref.of_rows.dataset}")
    if ID.fullmatch(Ref(dataset=ref.dataset, version=name).version):
        raise InputError(f"the name {name!r} would read as the id of a version; choose another")
    if any(True for _ in store.keys(f"{ref_key(ref.dataset, name)}/")):
        raise InputError(f"the name {name!r} is taken: there is a dataset {ref.dataset}/{name}; choose another")
    ref = resolve(store, ref)
    sources = _sources(store, ref) if ancestors else []
    with pinned(store, JOB, [*sources, ref]):
        moves = [_move(store, resolve(store, source), name) for source in sources]
        return [move for move in moves if move.before != move.ref.version] + [_move(store, resolve(store, ref), name)]


def _move(store: Store, ref: Ref, name: str) -> Move:
    before = (point(store, ref, name) or b"").decode(errors="replace")
    if name == LATEST:
        forget_notes(store, ref.dataset)
    if before != ref.version:
        facts = {"dataset": ref.dataset, "moved": {"name": name, "before": before or None, "by": _who()}}
        EventLog(store, JOB, "").emit("COMPLETE", inputs={}, output=str(ref), facts=facts)
    return Move(ref, name, before)


def _sources(store: Store, ref: Ref) -> list[Ref]:
    """The version of every other dataset behind ``ref``; what a dataset grew from is not behind it.

    A version of a growing dataset may answer many requests: the last of those counts that read what the others were
    made from.
    """
    found: dict[str, Ref] = {}
    todo = [load_manifest(store, ref)]
    while todo:
        todo.sort(key=lambda manifest: CHANGE not in manifest.params)  # taken from the end: growing ones come last
        for source in refs_behind(store, todo.pop(), partial(_agrees, store, found)):
            if found.get(source.dataset) == source:
                continue
            if source.dataset != ref.dataset and found.setdefault(source.dataset, source) != source:
                raise InputError(f"{ref} was made from {source} and {found[source.dataset]}; point them one by one")
            todo.append(load_manifest(store, source))
    return sorted(found.values(), key=str)


def _agrees(store: Store, found: dict[str, Ref], ref: Ref) -> bool:
    """Whether ``ref`` is what was found of its dataset; where nothing was, whether it is still there."""
    return found[ref.dataset] == ref if ref.dataset in found else store.exists(manifest_key(ref))


def _who() -> str:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{platform.node()}"
