"""Copies of a version for other tools: rows as Parquet or JSONL, a model's files under their own names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store.disk import space_in, writable
from pipeline_tasks.core.versions import Version

Format = Literal["parquet", "jsonl"]
LICENCES = "LICENCES.json"
_MOVED = ".moved"
PARTIAL = ".partial"


def export(
    version: Version, folder: Path, fmt: Format = "parquet", finish: Callable[[Path], list[Path]] | None = None
) -> list[Path]:
    """Write the live rows of ``version``, one file per part, or its files into ``folder``; returns what was written.

    ``LICENCES.json`` beside them names the licence of every model whose weights stand behind the version, if any do.

    It grows in a subfolder and is moved up once it is whole: an error leaves nothing, a kill that subfolder, with the
    names of what may be above it; the next export replaces both.

    Args:
        version: what is copied.
        folder: an empty one, or one that is not there yet.
        fmt: of rows.
        finish: adds files of its own before the folder is whole, and returns them.

    Raises:
        InputError: the folder holds something or cannot be made, or a file's logical name would leave it.
        TransientError: no space is left.
    """
    partial = folder / PARTIAL
    moved_before = _moved(partial)
    if folder.exists() and (
        not folder.is_dir() or {entry.name for entry in folder.iterdir()} - moved_before - {PARTIAL}
    ):
        raise InputError(f"{folder} is not empty; export into a folder of its own")
    with space_in(folder), pinned(version.store, "export", [version.manifest.ref]):
        for name in moved_before:
            _remove(folder / name)
        with writable(folder, "name another folder"):
            _remove(partial)
            partial.mkdir(parents=True)
        try:
            written = _write(version, partial, fmt)
            written += finish(partial) if finish else []
            entries = list(partial.iterdir())
            (partial / _MOVED).write_text(json.dumps([entry.name for entry in entries]), encoding="utf-8")
            durable.sync_tree(partial)
            for entry in entries:
                entry.rename(folder / entry.name)
        finally:
            shutil.rmtree(partial)
        durable.sync(folder)
    return [folder / path.relative_to(partial) for path in written]


def _moved(partial: Path) -> set[str]:
    """Names of what an export that was killed may have moved up."""
    try:
        return {
            str(name) for name in json.loads((partial / _MOVED).read_text("utf-8")) if Path(name).name == name != ".."
        }
    except (OSError, ValueError, TypeError):
        return set()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(version: Version, folder: Path, fmt: Format) -> list[Path]:
    written = _files(version, folder) if version.manifest.rows_schema == FILES else _rows(version, folder, fmt)
    if version.manifest.licences:
        notice = folder / LICENCES
        notice.write_text(json.dumps(version.manifest.licences, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        written.append(notice)
    return written


def _rows(version: Version, folder: Path, fmt: Format) -> list[Path]:
    written = []
    for index, table in enumerate(version.parts()):
        path = folder / f"part-{index:05d}.{fmt}"
        if fmt == "parquet":
            pq.write_table(table, path, compression="zstd")
        else:
            _write_jsonl(table, path)
        written.append(path)
    return written


def _files(version: Version, folder: Path) -> list[Path]:
    written = []
    for name, path in version.files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        written.append(target)
    return written


def _write_jsonl(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=1_000):
            for row in batch.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, default=_base64) + "\n")


def _base64(value: Any) -> str:
    """Bytes have no JSON form; everything else is a text."""
    import base64

    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
