"""Every passage that can be a positive or a negative, by number: its split, a hash of its text, and the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import IdTable, strings, text_hashes

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class PassageIndex:
    """PDF passages, then generated positives; a passage's number is its place.

    Attributes:
        table: numbers by id.
        ids: id of each.
        splits: place in :data:`SPLITS`, int8; of a generated positive its query's.
        hashes: equal for equal texts, uint64.
        texts: the texts, in a file that is mapped and not read as a whole.
    """

    table: IdTable
    ids: pa.Array
    splits: np.ndarray
    hashes: np.ndarray
    texts: pa.Array

    @classmethod
    def read(cls, passages: Version, pairs: Version, folder: Path) -> PassageIndex:
        """The index of two versions; the texts are laid out in ``folder``.

        Raises:
            InputError: a row is of a split that nobody knows.
        """
        ids, splits, hashes, ends = [], [], [], [np.zeros(1, np.int64)]
        with (folder / "texts").open("wb") as file:
            for version, key, text in ((passages, "passage_id", "text"), (pairs, "positive_id", "positive")):
                for part in version.parts([key, text, "split"]):
                    found = strings(part[text])
                    ids += part[key].chunks
                    splits.append(split_numbers(part["split"], version))
                    hashes.append(text_hashes(part[text]))
                    start = found.offsets[0]
                    ends.append(found.offsets[1:] - start + ends[-1][-1])
                    found.data[start : found.offsets[-1]].tofile(file)
        column = pa.chunked_array(ids, pa.string()).combine_chunks()
        texts = _mapped(folder / "texts", np.concatenate(ends))
        return cls(IdTable.of(column), column, np.concatenate(splits), np.concatenate(hashes), texts)


def split_numbers(column: pa.ChunkedArray, version: Version) -> np.ndarray:
    """The place of each row's split in :data:`SPLITS`, int8.

    Raises:
        InputError: a split that nobody knows.
    """
    import pyarrow.compute as pc

    found = pc.index_in(column, value_set=pa.array(SPLITS))
    if found.null_count:
        unknown = pc.unique(column.filter(pc.is_null(found))).to_pylist()
        raise InputError(f"{version.manifest.ref}: rows of split {unknown}; the splits are {', '.join(SPLITS)}")
    return found.to_numpy().astype(np.int8)


def _mapped(path: Path, offsets: np.ndarray) -> pa.Array:
    data = pa.memory_map(str(path)).read_buffer() if offsets[-1] else pa.py_buffer(b"")
    narrow = offsets[-1] <= np.iinfo(np.int32).max
    kind = pa.StringArray if narrow else pa.LargeStringArray
    return kind.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32) if narrow else offsets), data)
