"""Rows of JSONL, CSV, TSV and Parquet files, one at a time, with the place that each comes from."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_from_a_form, is_readable_file, named_path, where_to_name
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store.bring_folder import SCHEME, bring_folder

KINDS = (".jsonl", ".csv", ".tsv", ".parquet")
_PACKED = ".gz"
AT_ONCE = 10_000
csv.field_size_limit((1 << 31) - 1)  # a field that is too long is for a step to refuse, by its row
Numbered = Iterator[tuple[int, dict[str, Any] | None]]
"""The 1-based line, or row, and what it holds; None for a line that is no row."""
UNREADABLE = (UnicodeDecodeError, csv.Error, pa.ArrowInvalid, EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a file raises that is not what its name says."""


@dataclass(frozen=True)
class Place:
    """Where a row stands: a file's name and the 1-based line that it begins in, or row of a file without lines."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


class PairFiles:
    """A file, or all files below a folder that are of a kind that can be read, in the order of their names."""

    def __init__(
        self, source: str, patterns: Sequence[str] = ("*",), names: Sequence[str] = (), separator: str = "\t"
    ) -> None:
        """Of a path, or of ``s3://bucket/prefix``.

        Args:
            source: where they are.
            patterns: of the files' paths below it; a file that fits one is read.
            names: of the columns of TSV files whose first line has none.
            separator: between the columns of TSV files.

        Raises:
            InputError: nothing is there that can be read, or the name of a file is no UTF-8.
            TransientError: a bucket's server does not answer.
        """
        self._source, self._names, self._separator = source, tuple(names), separator
        self._root = Path()
        self._files: list[Path] = []
        if root := folder_of(source):
            self._root = root if root.is_dir() else root.parent
            found = sorted(root.rglob("*")) if root.is_dir() else [root]
            readable = [path for path in found if kind_of(path) in KINDS and is_readable_file(path)]
            self._files = [path for path in readable if any(fnmatch(self._name_of(path), each) for each in patterns)]
        if not self._files:
            like = "" if tuple(patterns) == ("*",) else f" like {' or '.join(patterns)}"
            raise InputError(
                f"source={source!r} has no {', '.join(KINDS)} file{like} that can be read{where_to_name()}"
            )
        for name in map(self._name_of, self._files):
            try:
                name.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"source={source!r}: the name {name!a} is no UTF-8; rename what it names") from error

    def _name_of(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def identity(self) -> str:
        """What the files hold, wherever they lie."""
        # The mark was a part of the first column's name once, and bytes and NaN were read as their literals: rows of
        # such files are others than those that their digest named.
        marked = [f"{self._name_of(path)} begins with a byte order mark" for path in self._files if _is_marked(path)]
        packed = [f"{self._name_of(path)} has columns of bytes" for path in self._files if _has_bytes(path)]
        numbered = [f"{self._name_of(path)} has numbers that are none" for path in self._files if _has_no_numbers(path)]
        return digest(*((self._name_of(path), file_sha256(path)) for path in self._files), *marked, *packed, *numbered)

    def rows_with_places(
        self, fields: Sequence[str], columns: Mapping[str, str]
    ) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """The place of every row, and what its fields hold; None for a line that is no row.

        Args:
            fields: names to give the values.
            columns: of some fields what their column is called, where not the same.

        Raises:
            InputError: as :meth:`rows`; ``columns`` names one that no row has.
        """
        names = {field: columns.get(field, field) for field in fields}
        lacking = set(columns.values())
        for place, row in self.rows():
            if row is not None:
                lacking -= row.keys()
            yield str(place), None if row is None else {field: row.get(name) for field, name in names.items()}
        if lacking:
            raise InputError(
                f"columns={dict(columns)!r}: no row of {self._source!r} has a column {min(lacking)!r}; there are "
                f"{self.columns()}"
            )

    def columns(self) -> str:
        """The names of all columns, as a list in words."""
        return ", ".join(dict.fromkeys(str(name) for _, row in self.rows() for name in row or ())) or "none"

    def rows(self) -> Iterator[tuple[Place, dict[str, Any] | None]]:
        """Every row, and None for a line that is none.

        Raises:
            InputError: a file is not what its name says.
        """
        for path in self._files:
            name = self._name_of(path)
            try:
                for number, row in self._read(path):
                    yield Place(name, number), row
            except UNREADABLE as error:
                remedy = "write it as UTF-8" if isinstance(error, UnicodeDecodeError) else "mend it"
                raise InputError(
                    f"{path} cannot be read as {kind_of(path)[1:]} ({error}): {remedy}, or move it away"
                ) from error

    def _read(self, path: Path) -> Numbered:
        if kind_of(path) == ".parquet":
            try:
                batches = pq.ParquetFile(path).iter_batches(AT_ONCE)
                yield from enumerate(chain.from_iterable(map(rows_in, batches)), 1)
            except OSError as error:
                raise pa.ArrowInvalid(str(error)) from error
            return
        with path.open("rb") as file:
            yield from rows_of(file, path, self._names, self._separator)


def _is_marked(path: Path) -> bool:
    """Whether a file begins as those of some spreadsheets do."""
    try:
        with gzip.open(path) if path.suffix == _PACKED else path.open("rb") as file:
            return file.read(len(BOM_UTF8)) == BOM_UTF8
    except UNREADABLE:  # rows() says so
        return False


def _has_bytes(path: Path) -> bool:
    """Whether a file has columns of bytes, as Parquet of some writers does for texts."""
    try:
        return kind_of(path) == ".parquet" and bool(_of_bytes(pq.read_schema(path)))
    except (*UNREADABLE, OSError):  # rows() says so
        return False


def _has_no_numbers(path: Path) -> bool:
    """Whether a file of JSON may have a NaN or an infinity, as no JSON but many a program has."""
    if kind_of(path) != ".jsonl":
        return False
    try:
        with gzip.open(path) if path.suffix == _PACKED else path.open("rb") as file:
            return any(map(_has_no_number, file))
    except UNREADABLE:  # rows() says so
        return False


def _has_no_number(line: bytes) -> bool:
    found: list[str] = []
    if b"NaN" in line or b"Infinity" in line:
        with suppress(ValueError, RecursionError):  # such a line is a reject
            json.loads(line, parse_constant=found.append)
    return bool(found)


def _of_bytes(schema: pa.Schema) -> list[str]:
    """Names of the columns that hold bytes, in lists or objects too."""
    return [field.name for field in schema if "binary" in str(field.type)]


def rows_in(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a Parquet file; bytes are the text that they are in UTF-8, and stay where they are none."""
    rows, packed = batch.to_pylist(), _of_bytes(batch.schema)
    for row in rows if packed else ():
        row |= {name: _decoded(row[name]) for name in packed}
    return rows


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if isinstance(value, dict):
        return {name: _decoded(each) for name, each in value.items()}
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def rows_of(file: IO[bytes], path: PurePath, names: Sequence[str] = (), separator: str = "\t") -> Numbered:
    """The rows of a file of lines of the kind that the end of ``path`` says, each with the line that it begins in."""
    kind = kind_of(path)
    with (
        gzip.GzipFile(fileobj=file) if path.suffix == _PACKED else nullcontext(file) as unpacked,
        io.TextIOWrapper(unpacked, "utf-8-sig", newline="" if kind == ".csv" else "\n") as lines,
    ):
        if kind == ".jsonl":
            yield from enumerate(map(_json, lines), 1)
        elif kind == ".csv":
            yield from _by_column(_csv(lines))
        else:
            split = (line.rstrip("\r\n").split(separator) for line in lines)  # quotes mean nothing in these files
            yield from _by_column(enumerate(split, 1), names)


def _csv(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The fields of a row, which may hold line breaks, and the line that it begins in."""
    reader, first = csv.reader(lines), 1
    for fields in reader:
        if fields or first == 1:
            yield first, fields
        first = reader.line_num + 1


def _by_column(rows: Iterator[tuple[int, list[str]]], names: Sequence[str] = ()) -> Numbered:
    """Rows by the names of their columns, which the first one has where there are no ``names``."""
    names = names or next(rows, (0, ()))[1]
    for number, fields in rows:
        yield number, dict(zip(names, fields, strict=True)) if len(fields) == len(names) else None


def folder_of(source: str) -> Path | None:
    """The file or folder that ``source`` names, brought here from a bucket; None where this run may read none there.

    Raises:
        InputError: nothing lies below the prefix of a bucket.
        TransientError: its server does not answer.
    """
    if source.startswith(SCHEME) and not is_from_a_form():
        return bring_folder(source, settings().store_cache, lambda name: kind_of(Path(name)) in KINDS, ", ".join(KINDS))
    return named_path(source)


def kind_of(path: PurePath) -> str:
    """The end of a file's name, without that of its packing."""
    return PurePath(path.stem).suffix if path.suffix == _PACKED else path.suffix


def _json(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line, parse_constant=lambda name: None)  # NaN is how some programs write that nothing is there
        if "\\ud" in line.lower():
            json.dumps(row, ensure_ascii=False).encode()  # half of a character is none
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
