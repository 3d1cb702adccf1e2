"""Splits as numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version

SPLITS = ("train", "dev", "test")


def split_numbers(column: pa.ChunkedArray, version: Version) -> np.ndarray:
    """The place of each row's split in :data:`SPLITS`, int8.

    Raises:
        InputError: a split that nobody knows.
    """
    found = pc.index_in(column, value_set=pa.array(SPLITS))
    if found.null_count:
        unknown = pc.unique(column.filter(pc.is_null(found))).to_pylist()
        raise InputError(f"{version.manifest.ref}: rows of split {unknown}; the splits are {', '.join(SPLITS)}")
    return found.to_numpy().astype(np.int8)
