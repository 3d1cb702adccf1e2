"""The passages that questions are asked of."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import in_order
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES

_COLUMNS = ["passage_id", "doc_id", "url", "title", "page", "start_char", "end_char", "text", "split"]


@dataclass(frozen=True)
class Corpus:
    """One version of ``passages``.

    Attributes:
        store: where it is.
        manifest: of the version.
        rows: its rows in the order of their ids, so that ties of a search go by passage id.
    """

    store: Store
    manifest: Manifest
    rows: pa.Table

    @cached_property
    def texts(self) -> list[str]:
        """Text of every passage."""
        return self.rows["text"].to_pylist()

    @property
    def digest(self) -> str:
        """What its rows are: unlike the version's id it changes when rows are erased."""
        return digest(self.manifest.model_dump(mode="json"))

    def places(self, ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Place of each passage among the rows, -1 for one that is not here.

        Shapes: returns [n], int32.
        """
        found = pc.index_in(ids, value_set=self.rows["passage_id"].combine_chunks())
        return found.fill_null(-1).to_numpy().astype(np.int32, copy=False)

    def passage(self, passage_id: str) -> dict:
        """The row of one passage.

        Raises:
            InputError: it is not in this version.
        """
        ids = self.rows["passage_id"]
        place = bisect_left(range(len(ids)), passage_id, key=lambda at: ids[at].as_py())
        if place == len(ids) or ids[place].as_py() != passage_id:
            raise InputError(
                f"{self.manifest.ref} has no passage {passage_id!r}; name the version that has: --passages"
            )
        return self.rows.slice(place, 1).to_pylist()[0]


def open_corpus(store: Store, ref: Ref) -> Corpus:
    """The passages of ``ref``.

    Raises:
        InputError: it is not in the store, holds other rows, or none.
    """
    version = Version.open(store, ref)
    if version.manifest.rows_schema != PASSAGES.name:
        raise InputError(f"{version.manifest.ref} holds {version.manifest.rows_schema!r}: name passages")
    rows = in_order(version.table(_COLUMNS), "passage_id")
    if not rows.num_rows:
        raise InputError(f"{version.manifest.ref} holds no passage: there is nothing to ask")
    return Corpus(store, version.manifest, rows)
