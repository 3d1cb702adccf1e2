"""Some columns of a part, fetched without the rest, and known to be right.

The name of a part is the sha256 of all its bytes, which a reader of two columns does not have. So right before the
footer of the file, which says where each column is, stands a seal: the sha256 of each column's bytes, then that of
these and the footer together, then eight fixed bytes. Readers of Parquet find the footer from the end and never see it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.ranges import RangedFile

log = logging.getLogger(__name__)
TAIL_BYTES = 64 << 10
_MARK = b"\x89SEALED\n"
_SHA_BYTES = 32
_END_BYTES = 8
_GAP_BYTES = 64 << 10  # to fetch so much for nothing is cheaper than another request
Fetch = Callable[[int, int], bytes]
"""The bytes from the first of two places to before the second."""


def seal(path: Path) -> None:
    """Put the seal into a Parquet file that nobody reads yet."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as file:
        footer_at = file.seek(-_END_BYTES, io.SEEK_END) - int.from_bytes(file.read(4), "little")
        file.seek(footer_at)
        footer, sums = file.read(), b""
        for _, first, past in _chunks(metadata):
            file.seek(first)
            sums += sha256(file.read(past - first)).digest()
        file.seek(footer_at)
        file.write(sums + sha256(sums + footer).digest() + _MARK + footer)


def fetched(fetch: Fetch, size_bytes: int, columns: list[str]) -> pq.ParquetFile | None:
    """The file of which these columns can be read, in two requests or a few more.

    None where they are most of the file, where it has no seal, and where what was fetched is not what it should be: all
    of it has to be fetched then.
    """
    tail = fetch(max(0, size_bytes - TAIL_BYTES), size_bytes)
    sealed = _sealed(tail)
    if sealed is None:
        return None
    metadata, sums = sealed
    chunks = zip(_chunks(metadata), sums, strict=True)
    wanted = [(first, past, sha) for (name, first, past), sha in chunks if name in columns]
    if 2 * sum(past - first for first, past, _ in wanted) > size_bytes:
        return None
    pieces = {first: fetch(first, past) for first, past in _runs([(first, past) for first, past, _ in wanted])}
    file = _Pieces(pieces, size_bytes)
    for first, past, sha in wanted:
        if sha256(file.between(first, past)).digest() != sha:
            log.warning("bytes %d to %d are not those that the seal names; the object is fetched whole", first, past)
            return None
    return pq.ParquetFile(file, metadata=metadata)


def _sealed(tail: bytes) -> tuple[pq.FileMetaData, list[bytes]] | None:
    """The footer at the end of ``tail``, and the sha256 of each column; None where that is not what was written."""
    footer_at = len(tail) - _END_BYTES - int.from_bytes(tail[-_END_BYTES:][:4], "little")
    mark_at = footer_at - len(_MARK)
    if mark_at < 0 or tail[mark_at:footer_at] != _MARK:
        return None
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowInvalid, OSError):
        return None
    sha_at = mark_at - _SHA_BYTES
    sums_at = sha_at - _SHA_BYTES * metadata.num_row_groups * metadata.num_columns
    sums = tail[sums_at:sha_at] if sums_at >= 0 else b""
    if sha256(sums + tail[footer_at:]).digest() != tail[sha_at:mark_at]:
        return None
    return metadata, [sums[at : at + _SHA_BYTES] for at in range(0, len(sums), _SHA_BYTES)]


def _chunks(metadata: pq.FileMetaData) -> Iterator[tuple[str, int, int]]:
    """Name of the column, first byte and the one behind the last, of each column of each row group."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            yield chunk.path_in_schema.split(".")[0], first, first + chunk.total_compressed_size


def _runs(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """``spans``, those joined that lie close together."""
    found: list[tuple[int, int]] = []
    for first, past in sorted(spans):
        if found and first - found[-1][1] <= _GAP_BYTES:
            found[-1] = (found[-1][0], past)
        else:
            found.append((first, past))
    return found


class _Pieces(RangedFile):
    """A file of which only these pieces are there."""

    def __init__(self, pieces: dict[int, bytes], size_bytes: int) -> None:
        super().__init__(size_bytes)
        self._pieces = pieces

    def between(self, first: int, past: int) -> bytes:
        """The bytes from ``first`` to before ``past``, which one piece holds."""
        for at, data in self._pieces.items():
            if at <= first and past <= at + len(data):
                return data[first - at : past - at]
        raise OSError(f"bytes {first} to {past} were not fetched")
