"""What steps share that read triplets from files: which files, what their columns are called, rows of one form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.synthesis.files.pair_files import PairFiles

_PART_ROWS = 10_000


class OwnFilesParams(StepParams):
    """Which files, and what their columns are called."""

    fields_of_a_row: ClassVar[tuple[str, ...]] = ()

    source: str = Field(description="a .jsonl, .csv or .parquet file, or a folder of such files")
    columns: dict[str, str] = Field({}, description="a field -> what its column is called in the files")
    most_characters: int = Field(8_000, ge=1, description="longest text, in characters; longer ones are rejected")
    _files: PairFiles = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Find the files, and refuse what can name no column."""
        if unknown := sorted(self.columns.keys() - set(self.fields_of_a_row)):
            raise InputError(f"columns={self.columns!r}: {unknown[0]!r} is none of {', '.join(self.fields_of_a_row)}")
        self._files = PairFiles(self.source)

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the files hold wherever they lie."""
        return super().identity() | {"source": self._files.identity()}

    def rows(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """The place of every row, and what its fields hold; None for a line that is no row."""
        return self._files.rows_with_places(self.fields_of_a_row, self.columns)


def text_of(value: Any) -> str:
    """A field's text in one line, or that of a list of one; empty where there is none. A label may be the number 0."""
    if isinstance(value, list) and len(value) == 1:
        return text_of(value[0])
    return "" if value is None or isinstance(value, list | dict | bytes) else " ".join(str(value).split())


def first_fault(faults: Mapping[str, bool]) -> str:
    """The first reason that holds; empty: none does."""
    return next((reason for reason, holds in faults.items() if holds), "")


class Passage(NamedTuple):
    """A text that answers a query or does not, and what it is called."""

    id: str
    text: str


def triplet(query_id: str, task: str, query: str, positive: Passage, negatives: Sequence[Passage]) -> dict[str, Any]:
    """A row to train on, without scores."""
    return {
        "query_id": query_id,
        "intent": ANY,
        "instruction": task,
        "query": query,
        "positive_id": positive.id,
        "positive": positive.text,
        "negative_ids": [negative.id for negative in negatives],
        "negatives": [negative.text for negative in negatives],
        "negative_scores": [None] * len(negatives),
        "split": "train",
        "mining_model": "",
    }


def in_parts(triplets: Iterable[dict[str, Any]]) -> Iterator[pa.Table]:
    """Tables of triplets, none of which is large."""
    rows = iter(triplets)
    while some := list(islice(rows, _PART_ROWS)):
        yield INSTRUCTED_TRIPLETS.table(some)
