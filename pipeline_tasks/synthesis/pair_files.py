"""Rows of JSONL, CSV and Parquet files, one at a time, with the place that each comes from."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_readable_file, named_path, where_to_name

KINDS = (".jsonl", ".csv", ".parquet")
_AT_ONCE = 10_000


@dataclass(frozen=True)
class Place:
    """Where a row stands: a file's name and a 1-based line, or row, of it."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


class PairFiles:
    """A file, or all files below a folder that are of a kind that can be read, in the order of their names."""

    def __init__(self, source: str) -> None:
        """Of a path.

        Raises:
            InputError: nothing is there that can be read.
        """
        root = named_path(source)
        found = [] if root is None else [root] if root.is_file() else sorted(root.rglob("*"))
        self._files = [path for path in found if path.suffix in KINDS and is_readable_file(path)]
        if root is None or not self._files:
            raise InputError(f"source={source!r} has no {', '.join(KINDS)} file that can be read{where_to_name()}")
        self._root = root if root.is_dir() else root.parent

    def identity(self) -> str:
        """What the files hold, wherever they lie."""
        return digest(*((str(path.relative_to(self._root)), file_sha256(path)) for path in self._files))

    def rows(self) -> Iterator[tuple[Place, dict[str, Any] | None]]:
        """Every row, and None for a line that is none.

        Raises:
            InputError: a file is not what its name says.
        """
        for path in self._files:
            name = str(path.relative_to(self._root))
            try:
                for number, row in enumerate(_READERS[path.suffix](path), 1):
                    yield Place(name, number), row
            except (UnicodeDecodeError, csv.Error, pa.ArrowInvalid) as error:
                raise InputError(
                    f"{path} cannot be read as {path.suffix[1:]} ({error}): mend it, or move it away"
                ) from error


def _jsonl(path: Path) -> Iterator[dict[str, Any] | None]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            yield row if isinstance(row, dict) else None


def _csv(path: Path) -> Iterator[dict[str, Any] | None]:
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield None if None in row or None in row.values() else row


def _parquet(path: Path) -> Iterator[dict[str, Any] | None]:
    for batch in pq.ParquetFile(path).iter_batches(_AT_ONCE):
        yield from batch.to_pylist()


_READERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
