"""Sets of the general domain read from the hub as they are wanted: ranges of Parquet files, lines of the others."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any

import pyarrow.parquet as pq

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.hub_files import BLOCK_BYTES, DataFiles, data_commit
from pipeline_tasks.synthesis.files.general_layouts import Read, Table
from pipeline_tasks.synthesis.files.general_sets import GeneralSet
from pipeline_tasks.synthesis.files.pair_files import AT_ONCE, KINDS, UNREADABLE, Place, kind_of, rows_in, rows_of

HUB = "hub"


def commits(name: str, one: GeneralSet) -> dict[str, str]:
    """Data sets on the hub that have the files of a set -> the commit that is read.

    ``FOUNDRY_HUB_REVISIONS`` has the last word, by the name of the set or of the data set; a revision that is no commit
    is asked for once, here.

    Raises:
        InputError: no hub has the set, this machine asks none, or the hub has no such revision.
        TransientError: it cannot be asked.
    """
    found = one.repositories(name)
    if settings().profile != HUB:
        raise InputError(
            f"set {name!r}: source=hub asks the hub, and FOUNDRY_PROFILE={settings().profile} forbids it: set "
            f"FOUNDRY_PROFILE=hub, or elsewhere: {one.command(f'FOLDER/{name}')}, and read that with source=FOLDER"
        )
    pinned = settings().revisions
    wanted = {id_: pinned.get(id_) or revision for id_, revision in found.items()}
    wanted[one.hub] = pinned.get(name) or wanted[one.hub]
    return {id_: data_commit(id_, revision or "main") for id_, revision in wanted.items()}


class OnHub:
    """A set on the hub, at its commits.

    Files come in the order of their hashes, and so do the row groups of a Parquet file: whoever stops reading has a
    sample of all of them, and not the first rows. The lines of other files come in their order.
    """

    reads_all = False

    def __init__(self, name: str, hub: str, repositories: Mapping[str, DataFiles]) -> None:
        """Of the set ``name``, whose data set is ``hub``."""
        self._name, self._hub, self._repositories = name, hub, repositories

    def rows(self, table: Table, columns: tuple[str, ...]) -> Read:
        """The rows of a table, each read when it is asked for.

        Raises:
            InputError: there is no file of it that can be read, or one is not what its name says.
        """
        files = self._repositories[table.hub or self._hub]
        fits = [path for path in files.sizes if any(fnmatch(path, pattern) for pattern in table.files)]
        readable = [path for path in fits if kind_of(PurePath(path)) in KINDS]
        if not readable:
            raise InputError(
                f"set {self._name!r}: {files.pin} has no {', '.join(KINDS)} file like {' or '.join(table.files)}; it "
                f"has {', '.join(sorted(files.sizes)[:10]) or 'none'}. Name another commit in FOUNDRY_HUB_REVISIONS="
                f"{self._name}=COMMIT, or download files of that layout and name their folder in source="
            )
        for path in sorted(readable, key=lambda path: unit_hash(files.repository, path)):
            try:
                for number, row in _rows(files, path, table, columns):
                    yield Place(path, number), row
            except UNREADABLE as error:
                kind = kind_of(PurePath(path))[1:]
                raise InputError(
                    f"set {self._name!r}: {path} of {files.pin} cannot be read as {kind} ({error}): "
                    f"name another commit in FOUNDRY_HUB_REVISIONS={self._name}=COMMIT"
                ) from error


def _rows(
    files: DataFiles, path: str, table: Table, columns: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    if kind_of(PurePath(path)) == ".parquet":
        with files.open(path) as opened:
            yield from _groups(pq.ParquetFile(opened), path, columns)
    else:
        with io.BufferedReader(files.open(path, BLOCK_BYTES)) as lines:
            yield from rows_of(lines, PurePath(path), table.names, table.separator)


def _groups(file: pq.ParquetFile, path: str, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """1-based number and row; of these columns alone where the file has them all."""
    wanted = list(columns) if set(columns) <= set(file.schema_arrow.names) else None
    starts = [0]
    for group in range(file.num_row_groups):
        starts.append(starts[-1] + file.metadata.row_group(group).num_rows)
    for group in sorted(range(file.num_row_groups), key=lambda group: unit_hash(path, str(group))):
        number = starts[group]
        for batch in file.iter_batches(AT_ONCE, row_groups=[group], columns=wanted, use_threads=False):
            for row in rows_in(batch):
                number += 1
                yield number, row
