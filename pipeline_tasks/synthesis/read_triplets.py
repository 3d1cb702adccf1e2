"""Triplets that somebody has already: academic sets, natural language inference, similar sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS
from pipeline_tasks.models.registry import SEPARATOR
from pipeline_tasks.synthesis.files.no_rows import nothing_in
from pipeline_tasks.synthesis.files.own_triplets import OwnFilesParams, Passage, first_fault, in_parts, text_of, triplet


class ReadTripletsParams(OwnFilesParams):
    """Which files, and what a query is told."""

    fields_of_a_row: ClassVar[tuple[str, ...]] = ("query", "positive", "negative", "task")

    name: str = Field("triplets", description="name of the dataset mtt/own/<name>")
    columns: dict[str, str] = Field(
        {}, description="column mapping: query, positive, negative or task -> its column in the files"
    )
    task: str = Field("", description="task instruction before a query whose row has none of its own")
    symmetric: bool = Field(
        False, description="symmetric task: its instruction goes before the positive and the negatives too"
    )


class _Row(NamedTuple):
    """What one row of the files says."""

    task: str
    query: str
    positive: str
    negatives: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.query, self.positive, *self.negatives)


@step(reads={}, writes=INSTRUCTED_TRIPLETS, kind="reduce", dataset="mtt/own/{name}", version="2")
def read_triplets(inputs: Inputs, params: ReadTripletsParams, run: Run) -> Iterator[pa.Table]:
    """A triplet for each row of the files; ``unify`` puts them together with others.

    ``negative`` may be one text, a list of them, or none; rows without any are counted as ``without_negatives``. With
    ``symmetric`` the positive and the negatives are the texts that their own queries would be: the task, a colon and a
    blank before each, which is how a model without a template of its own is given a query's instruction. So what is
    compared are texts with the same task before them, as in semantic similarity and natural language inference.

    Reasons of rejects: ``bad_line``, ``no_query``, ``no_positive``, ``no_task``, ``too_long``, ``repeated_text`` (two
    of its texts are the same), ``duplicate_triplet``.

    Source: Gecko 3.3, "Academic Data", and the symmetric format of 4.3.

    Raises:
        InputError: the files are none, or no row of them is a triplet.
    """
    seen = set[str]()
    yield from in_parts(_triplets(params, seen, run))
    if not seen:
        names = {field: params.columns.get(field, field) for field in params.fields_of_a_row}
        no_task = "say in task what is looked for, or name a column that does in columns"
        raise nothing_in(params.source, run, "a triplet", names, no_task=no_task)


def _triplets(params: ReadTripletsParams, seen: set[str], run: Run) -> Iterator[dict[str, Any]]:
    """Rows to train on; their ids are ``seen`` then."""
    for place, found in params.rows():
        run.count("rows_in")
        row = _read(found or {}, params)
        name = short_id(params.name, *row)
        faults = {
            "bad_line": found is None,
            "no_query": not row.query,
            "no_positive": not row.positive,
            "no_task": not row.task,
            "too_long": max(map(len, row.texts)) > params.most_characters,
            "repeated_text": len({*row.texts}) < len(row.texts),
            "duplicate_triplet": name in seen,
        }
        if reason := first_fault(faults):
            run.reject(place, reason, row.query)
            continue
        seen.add(name)
        run.count("without_negatives", not row.negatives)
        before = row.task + SEPARATOR if params.symmetric else ""
        positive, *negatives = (Passage(short_id(params.name, text), before + text) for text in row.texts[1:])
        yield triplet(name, row.task, row.query, positive, negatives)


def _read(row: dict[str, Any], params: ReadTripletsParams) -> _Row:
    query, positive, task = (text_of(row.get(field)) for field in ("query", "positive", "task"))
    value = row.get("negative")
    negatives = (text_of(each) for each in (value if isinstance(value, list) else [value]))
    return _Row(task or text_of(params.task), query, positive, tuple(filter(None, negatives)))
