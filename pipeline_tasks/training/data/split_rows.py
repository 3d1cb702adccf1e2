"""Rows of one split of a dataset, and what a mixture or a sampler takes them to be of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.versions import Version

if TYPE_CHECKING:
    from pipeline_tasks.training.params import Unit

ROWS_AT_ONCE = 4096


def of_split(version: Version, columns: Sequence[str], split: str) -> Iterator[pa.Table]:
    """The rows of that split, a block at a time."""
    for rows in version.batches([*columns, "split"], ROWS_AT_ONCE):
        yield rows.filter(pc.field("split") == split).select(columns)


def n_rows(version: Version, split: str) -> int:
    """How many rows of that split there are."""
    return sum(len(rows) for rows in of_split(version, [], split))


def n_training_rows(versions: Sequence[Version], option: str) -> int:
    """How many training rows the datasets have that ``option`` names.

    Raises:
        InputError: one has none, and would add nothing.
    """
    found = [n_rows(version, "train") for version in versions]
    for version, n in zip(versions, found, strict=True):
        if not n:
            raise InputError(
                f"{option}: no row of {version.manifest.ref} is of the split train; read it in with "
                "read_passages --set trains=true, or leave it out"
            )
    return sum(found)


def sources(rows: pa.Table, unit: Unit, own: pa.ChunkedArray | str) -> pa.ChunkedArray | pa.Array:
    """What the rows of a block are of, as a mixture or a sampler takes them: ``own``, their intents, or ``all``."""
    if unit == "intent":
        return rows["intent"]
    if unit == "all":
        return pa.repeat("all", len(rows))
    return pa.repeat(own, len(rows)) if isinstance(own, str) else own.fill_null("")
