"""Reading and writing versions in a store: manifests, refs, parts with their removals."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import LATEST, PREVIOUS, REJECTS_SUFFIX, Manifest, Part, Ref
from pipeline_tasks.core.parts import part_batches, read_part
from pipeline_tasks.core.pins import create_despite_upkeep
from pipeline_tasks.core.removals import RemovedRows, without
from pipeline_tasks.core.schema import REJECTS, ChangedColumnsError, RowSchema
from pipeline_tasks.core.store import Entry, Store
from pipeline_tasks.core.store.protocol import WHOLE_BYTES

log = logging.getLogger(__name__)
_AHEAD = 128
Asked = TypeVar("Asked")
ID = re.compile(r"[0-9a-f]{16}")
"""What the id of a version looks like."""
REMOVED = pa.schema([pa.field("key", pa.string())])


def bring_ahead(store: Store, asked: Iterable[tuple[Asked, Part | Entry]]) -> Iterator[Asked]:
    """What is asked for, with its objects; of small ones a bucket is asked side by side, for more the more are read."""
    todo, n = iter(asked), 1
    while some := list(islice(todo, n)):
        store.bring(part.key for _, part in some if part.size_bytes <= WHOLE_BYTES)
        yield from (one for one, _ in some)
        n = min(2 * n, _AHEAD)


def manifest_key(ref: Ref) -> str:
    """Where the manifest of ``ref`` is kept."""
    return f"versions/{ref.dataset}/{ref.version}.json"


def ref_key(dataset: str, name: str = LATEST) -> str:
    """Where it is kept which version ``name`` means."""
    return f"refs/{dataset}/{name}"


def resolve_name(store: Store, dataset: str, name: str = LATEST) -> Ref | None:
    """The version that ``name`` means, or None; a ref that is torn or leads nowhere means the newest version."""
    data = store.read(ref_key(dataset, name))
    return None if data is None else _meant(store, dataset, data)


def refs(store: Store) -> dict[str, Ref]:
    """Key of every ref that means a version -> that version."""
    found = {}
    for key, data in store.read_all(store.keys("refs")):
        ref = _meant(store, key.removeprefix("refs/").rpartition("/")[0], data or b"")
        if ref:
            found[key] = ref
    return found


def _meant(store: Store, dataset: str, data: bytes) -> Ref | None:
    version = data.decode("ascii", "replace")
    if ID.fullmatch(version) and store.exists(manifest_key(ref := Ref(dataset=dataset, version=version))):
        return ref
    folder = f"versions/{dataset}/"
    there = [entry for entry in store.entries(folder) if "/" not in entry.key.removeprefix(folder)]
    newest = max(there, key=lambda entry: (entry.modified, entry.key), default=None)
    if newest is None:
        return None
    ref = Ref(dataset=dataset, version=newest.key.removeprefix(folder)[:-5])
    log.warning("a name of %s leads to no version of it: %r; the newest, %s, is meant", dataset, version, ref.version)
    return ref


def resolve(store: Store, ref: Ref) -> Ref:
    """``ref`` with its version id in place of a name such as ``latest``.

    Raises:
        InputError: the dataset or version is not in the store.
    """
    return _read_manifest(store, ref)[0]


def _read_manifest(store: Store, ref: Ref) -> tuple[Ref, bytes]:
    """``ref`` with its version id, and the manifest; what looks like an id is looked up as one first."""
    base = ref.of_rows.dataset
    data = store.read(manifest_key(ref.of_rows)) if ID.fullmatch(ref.version) else None
    if data is not None:
        return ref, data
    found = resolve_name(store, base, ref.version) or ref.of_rows
    data = store.read(manifest_key(found))
    if data is None:
        folder = f"versions/{base}/"
        have = [k.removeprefix(folder)[:-5] for k in store.keys(folder) if "/" not in k.removeprefix(folder)]
        hint = f"versions there: {', '.join(have[:5])}" if have else "run the step that writes it (`foundry steps`)"
        raise InputError(f"{ref} is not in the store; {hint}")
    return Ref(dataset=ref.dataset, version=found.version), data


def load_manifest(store: Store, ref: Ref) -> Manifest:
    """The manifest of ``ref``; ``<dataset>/rejects`` reads as a dataset of its rejected rows."""
    found, data = _read_manifest(store, ref)
    manifest = Manifest.read(data)
    if manifest is None:
        raise InputError(
            f"{manifest_key(found)} is not a manifest; run {found.dataset}'s step again, or delete that file"
        )
    if not found.dataset.endswith(REJECTS_SUFFIX):
        return manifest
    return manifest.model_copy(
        update={
            "dataset": found.dataset,
            "rows_schema": REJECTS.name,
            "key": REJECTS.key,
            "parts": manifest.rejects,
            "rows": sum(p.rows for p in manifest.rejects),
            "removals": [],
            "rejects": [],
        }
    )


def commit(store: Store, manifest: Manifest) -> bool:
    """Publish ``manifest``; True for the one process that did it first. One that is there but not whole is replaced."""
    key, data = manifest_key(manifest.ref), manifest.to_bytes()
    store.rely_on(_new_keys(store, manifest))
    if create_despite_upkeep(store, key, lambda: store.create(key, data)):
        return True
    if whole(store, manifest.ref):
        return False
    store.replace(key, data)
    return True


def _new_keys(store: Store, manifest: Manifest) -> set[str]:
    """Objects that ``manifest`` names and the version that it grew from does not, whose commit made the others last."""
    grew_from = map(Ref.parse, manifest.inputs.get(PREVIOUS, ()))
    before = [Manifest.read(store.read(manifest_key(ref))) for ref in grew_from]
    return {part.key for part in manifest.objects}.difference(part.key for one in before if one for part in one.objects)


def whole(store: Store, ref: Ref) -> Manifest | None:
    """The manifest of the version ``ref``, if it is there with every part that it names."""
    manifest = Manifest.read(store.read(manifest_key(ref)))
    keys = {manifest_key(ref), *(part.key for part in manifest.objects)} if manifest else set()
    store.rely_on([manifest_key(ref)])
    return manifest if store.present(keys) == keys else None


def point(store: Store, ref: Ref, name: str = LATEST) -> bytes | None:
    """Let ``name`` mean ``ref`` from now on; what it meant before."""
    key, version = ref_key(ref.dataset, name), ref.version.encode()
    while (before := store.read(key)) != version and not store.swap(key, before, version):
        pass
    return before


@dataclass(frozen=True)
class Version:
    """A readable version: rows of its parts without those removed.

    With a ``schema``, a column that was added to it after a part was written reads null there. Where ``known`` says
    which rows are removed, that counts, and not the removals of the manifest.
    """

    store: Store
    manifest: Manifest
    schema: RowSchema | None = None
    known: RemovedRows | None = field(default=None, compare=False, repr=False)

    @classmethod
    def open(cls, store: Store, ref: Ref, schema: RowSchema | None = None) -> Version:
        """Open ``ref``; see :func:`load_manifest` for errors."""
        return cls(store, load_manifest(store, ref), schema)

    @property
    def last_name(self) -> str:
        """That of its dataset: of ``rankings/<model>`` the model."""
        return self.manifest.dataset.rsplit("/", 1)[-1]

    def has(self, column: str) -> bool:
        """Whether its rows are read with ``column``: it is of the schema, or of the first part where none is known."""
        held = (read_part(self.store, part).column_names for part in self.manifest.parts[:1])
        return self.schema.has(column) if self.schema else column in next(held, [])

    def rejects(self) -> Version:
        """The rows refused when this version was made."""
        return Version.open(self.store, Ref(dataset=self.manifest.dataset + REJECTS_SUFFIX, version=self.manifest.id))

    @cached_property
    def removed(self) -> RemovedRows:
        """Which rows of its parts are not its own any more."""
        return RemovedRows.of(self.store, self.manifest) if self.known is None else self.known

    def __reduce__(self) -> tuple[type[Version], tuple[Any, ...]]:
        return Version, (self.store, self.manifest, self.schema, self.known)

    def part(self, index: int, columns: list[str] | None = None) -> pa.Table:
        """Live rows of part ``index``."""
        return without(self.all_rows(index, columns), self.removed.rows(index))

    def all_rows(self, index: int, columns: list[str] | None = None) -> pa.Table:
        """Rows of part ``index``, those removed, too."""
        with self._of_this_release():
            return read_part(self.store, self.manifest.parts[index], columns, self.schema)

    @contextmanager
    def _of_this_release(self) -> Iterator[None]:
        """Say which step writes rows anew whose columns have changed."""
        try:
            yield
        except ChangedColumnsError as error:
            m = self.manifest
            raise InputError(
                f"{m.ref} has rows of an older release: {error}; `foundry stale` lists the steps to run again, or run "
                f"what it was made from and then `foundry run {m.step}`"
            ) from error

    def parts(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Live rows part by part, in order."""
        for index in self._brought(range(len(self.manifest.parts))):
            yield self.part(index, columns)

    def _brought(self, indices: Iterable[int]) -> Iterator[int]:
        return bring_ahead(self.store, ((index, self.manifest.parts[index]) for index in indices))

    def batches(self, columns: list[str], n_rows: int, parts: Iterable[int] | None = None) -> Iterator[pa.Table]:
        """Live rows, of these parts or of all, in blocks of at most ``n_rows``; no more than a block is in memory."""
        for index in self._brought(range(len(self.manifest.parts)) if parts is None else parts):
            removed, at = self.removed.rows(index), 0
            with self._of_this_release():
                for rows in part_batches(self.store, self.manifest.parts[index], columns, n_rows, self.schema):
                    yield without(rows, removed, at)
                    at += rows.num_rows

    def table(self, columns: list[str] | None = None) -> pa.Table:
        """All live rows."""
        tables = list(self.parts(columns))
        if not tables:
            raise InputError(
                f"{self.manifest.ref} has no parts: {self.manifest.step} had no input, or refused all of it"
            )
        return pa.concat_tables(tables, promote_options="default")  # parts may differ where no schema is known

    def files(self) -> Iterator[tuple[PurePosixPath, Path]]:
        """Logical name of every file of a model, and where it is on this machine.

        Raises:
            InputError: a name leads out of the model's folder.
        """
        for part in self.manifest.parts:
            name = PurePosixPath(part.name or part.sha256)
            if name.is_absolute() or ".." in name.parts:
                raise InputError(f"{self.manifest.ref} names a file outside it: {part.name!r}; drop that version")
            yield name, self.store.local_path(part.key)

    def lay_out(self, target: Path) -> Path:
        """A folder in which a model's files lie under their logical names, as links into the store."""
        for name, path in self.files():
            link = target / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        return target
