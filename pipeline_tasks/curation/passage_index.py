"""Every passage that can be a positive or a negative, by number: its split, a hash of its text, and the text itself."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import IdTable, strings, text_hashes
from pipeline_tasks.curation.splits import split_numbers


@dataclass(frozen=True)
class PassageIndex:
    """PDF passages, then generated positives; a passage's number is its place.

    Attributes:
        table: numbers by id.
        ids: id of each.
        splits: place in :data:`SPLITS`, int8; of a generated positive its query's.
        hashes: equal for equal texts, uint64.
        texts: the texts, in a file that is mapped and not read as a whole.
        forget_texts: let go of the memory that holds what was read of the texts; they can be read again.
    """

    table: IdTable
    ids: pa.Array
    splits: np.ndarray
    hashes: np.ndarray
    texts: pa.Array
    forget_texts: Callable[[], None]

    @classmethod
    def read(cls, passages: Version, pairs: Version, folder: Path) -> PassageIndex:
        """The index of two versions; the texts are laid out in ``folder``.

        Raises:
            InputError: a row is of a split that nobody knows.
        """
        ids, splits, hashes, ends = [], [], [], [np.zeros(1, np.int64)]
        read = [(passages, "passage_id", "text"), (pairs, "positive_id", "positive")]
        jobs = [(*source, number) for source in read for number in range(len(source[0].manifest.parts))]
        size = 0
        with (folder / "texts").open("wb") as file, ThreadPoolExecutor(settings().threads) as pool:
            for at in range(0, len(jobs), settings().threads):
                for part, hashed, split in pool.map(_part, jobs[at : at + settings().threads]):
                    ids += part[0].chunks
                    splits.append(split)
                    hashes.append(hashed)
                    found = strings(part[1])
                    start = found.offsets[0]
                    ends.append(found.offsets[1:].astype(np.int64) - start + size)
                    size += file.write(found.data[start : found.offsets[-1]].data)
        column = pa.chunked_array(ids, pa.string()).combine_chunks()
        texts, forget = _mapped(folder / "texts", np.concatenate(ends))
        return cls(IdTable.of(column), column, np.concatenate(splits), np.concatenate(hashes), texts, forget)


def _part(job: tuple[Version, str, str, int]) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    version, key, text, number = job
    rows = version.part(number, [key, text, "split"])
    return rows, text_hashes(rows[text]), split_numbers(rows["split"], version)


def _nothing() -> None:
    pass


def _mapped(path: Path, offsets: np.ndarray) -> tuple[pa.Array, Callable[[], None]]:
    data = pa.py_buffer(b"")
    forget: Callable[[], None] = _nothing
    if offsets[-1]:
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data, forget = pa.py_buffer(pages), partial(pages.madvise, mmap.MADV_DONTNEED)
    narrow = offsets[-1] <= np.iinfo(np.int32).max
    kind = pa.StringArray if narrow else pa.LargeStringArray
    places = pa.py_buffer(offsets.astype(np.int32) if narrow else offsets)
    return kind.from_buffers(len(offsets) - 1, places, data), forget
