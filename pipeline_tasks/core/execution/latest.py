"""``latest`` of a dataset: whoever builds a version moves it, by compare and swap; who finds one made does not.

A build moves it from what it named when the build began. Where somebody moved it meanwhile, the build that comes later
takes it only if all that its version was made from is still the latest: a slow build of old inputs does not undo a
newer one, and what a dataset grew from before a person pointed it elsewhere does not undo that.

A build that is killed between its manifest and ``latest`` leaves a note of what it saw. Who finds the version made then
finishes the move, if ``latest`` still is what was seen.
"""

from __future__ import annotations

import logging

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.manifest import LATEST, Manifest, Ref
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import commit, load_manifest, manifest_key, ref_key

log = logging.getLogger(__name__)
_NOTHING = b"nothing"


def current(store: Store, dataset: str) -> bytes | None:
    """What ``latest`` of ``dataset`` holds now, whatever that is; for :func:`publish`."""
    return store.read(ref_key(dataset))


def publish(store: Store, manifest: Manifest, before: bytes | None) -> Manifest:
    """Make ``manifest`` a version, and ``latest`` of its dataset by the rule above; the manifest that is there.

    It is pinned meanwhile: what a growing dataset becomes was not known when the run began, and may be there already,
    by a build that was killed, and be garbage until ``latest`` names it.

    Args:
        store: where its parts are.
        manifest: what was built.
        before: what was :func:`current` when the build began.

    Raises:
        TransientError: this process was taken for dead while it built, and parts of the version were deleted.
    """
    ref, note = manifest.ref, note_key(manifest.ref)
    with pinned(store, manifest.step, [ref]):
        store.replace(note, before or _NOTHING)
        made = commit(store, manifest)
        if not made:
            log.info("%s was made by another run meanwhile", ref)
            manifest = load_manifest(store, ref)
        if not store.pins_lasted():
            _check_whole(store, manifest)
        _move(store, manifest, before, insists=made)
        store.delete(note)
    return manifest


def _check_whole(store: Store, manifest: Manifest) -> None:
    """Find all parts, now that whoever collected garbage without knowing of ``manifest`` is done."""
    with pinned(store, manifest.step, [manifest.ref]):
        gone = {part.key for part in manifest.objects}
        gone -= store.present(gone)
    if gone:
        raise TransientError(
            f"{len(gone)} of the parts of {manifest.ref} were deleted while this process was suspended, or could not "
            "reach the store, and so counted as dead; try again, they are made anew"
        )


def leave_latest(store: Store, ref: Ref) -> None:
    """Leave ``latest`` as it is where ``ref`` was found made, and say so where it names another version.

    It moves only where it names no version that is there, or where the build of ``ref`` was killed before it could.
    """
    note = note_key(ref)
    left = store.read(note)
    if left:
        _swap(store, ref, None if left == _NOTHING else left)
        store.delete(note)
    now = current(store, ref.dataset)
    if now == ref.version.encode():
        return
    if _is_there(store, ref.dataset, now):
        _say_where(store, ref)
    else:
        _swap(store, ref, now)


def _move(store: Store, manifest: Manifest, before: bytes | None, *, insists: bool) -> None:
    """Swap ``latest`` from ``before``; who insists takes it from others, too, if all that it read is the latest."""
    ref = manifest.ref
    while not _swap(store, ref, before):
        before = current(store, ref.dataset)
        if before == ref.version.encode():
            return
        if not (insists and _is_made_of_latest(store, manifest)):
            _say_where(store, ref)
            return


def _swap(store: Store, ref: Ref, before: bytes | None) -> bool:
    return store.swap(ref_key(ref.dataset), before, ref.version.encode())


def _is_made_of_latest(store: Store, manifest: Manifest) -> bool:
    refs = (Ref.parse(name) for names in manifest.inputs.values() for name in names)
    return all(current(store, ref.of_rows.dataset) == ref.version.encode() for ref in refs)


def _is_there(store: Store, dataset: str, named: bytes | None) -> bool:
    try:
        return named is not None and store.exists(manifest_key(Ref(dataset=dataset, version=named.decode())))
    except (InputError, UnicodeDecodeError):
        return False


def _say_where(store: Store, ref: Ref) -> None:
    now = (current(store, ref.dataset) or b"").decode(errors="replace")
    log.warning("%s of %s stays %s; `foundry point %s` moves it", LATEST, ref.dataset, now, ref)


def forget_notes(store: Store, dataset: str) -> None:
    """Let no build that was killed move ``latest`` of ``dataset`` any more."""
    folder = note_key(Ref(dataset=dataset)).removesuffix(LATEST)
    store.delete_all([key for key in store.keys(folder) if "/" not in key.removeprefix(folder)])


def note_key(ref: Ref) -> str:
    """Where a build of ``ref`` notes what it saw, until it has moved ``latest``."""
    return f"moves/{ref.dataset}/{ref.version}"
