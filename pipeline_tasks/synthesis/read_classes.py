"""Classification sets as triplets: a text, another of its class, and one of another class."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import seed_of, short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS
from pipeline_tasks.synthesis.files.no_rows import nothing_in
from pipeline_tasks.synthesis.files.own_triplets import OwnFilesParams, Passage, first_fault, in_parts, text_of, triplet


class ReadClassesParams(OwnFilesParams):
    """Which files, and what a query is told."""

    fields_of_a_row: ClassVar[tuple[str, ...]] = ("text", "label")

    name: str = Field("classes", description="name of the dataset mtt/own/<name>")
    columns: dict[str, str] = Field({}, description="column mapping: text or label -> its column in the files")
    task: str = Field(
        "Given a text, find another text of the same class.",
        min_length=1,
        description="task instruction before a query",
    )
    ids: bool = Field(True, description="begin the triplet's texts with its id: against false in-batch negatives")


class _ClassTexts(NamedTuple):
    """The texts of all classes, in the order of the files, and where each class has its own."""

    texts: list[str]
    labels: list[str]
    of_label: dict[str, list[int]]


@step(reads={}, writes=INSTRUCTED_TRIPLETS, kind="reduce", dataset="mtt/own/{name}", version="4")
def read_classes(inputs: Inputs, params: ReadClassesParams, run: Run) -> Iterator[pa.Table]:
    """A triplet for each text of the files: its positive has the same label, its negative another, drawn by its hash.

    The same text may be the positive of several queries of a batch, and so be taken for a negative of those whose class
    it is. Hence the three texts of a triplet begin with one unique id: texts with another id are told apart without
    learning anything, and what is left to learn is the positive against the negative.

    Reasons of rejects: ``bad_line``, ``no_text``, ``no_label``, ``too_long``, ``duplicate_text``, ``alone`` (no other
    text has its label).

    Source: Gecko 3.3, "Classification Data for Contrastive Learning". Departure: it appends the id, which a text longer
        than the model reads would lose.

    Raises:
        InputError: the files are none, or have fewer than two labels.
    """
    known = _read(params, run)
    if len(known.of_label) < 2:
        if not known.texts:
            names = {field: params.columns.get(field, field) for field in params.fields_of_a_row}
            raise nothing_in(params.source, run, "a text with a label", names)
        raise InputError(f"source={params.source!r} has {len(known.of_label)} labels: a negative needs another one")
    run.count("labels", len(known.of_label))
    yield from in_parts(filter(None, (_triplet(row, known, params, run) for row in range(len(known.texts)))))


def _read(params: ReadClassesParams, run: Run) -> _ClassTexts:
    known, seen = _ClassTexts([], [], {}), set[str]()
    for place, row in params.rows():
        run.count("rows_in")
        text, label = (text_of((row or {}).get(field)) for field in params.fields_of_a_row)
        faults = {
            "bad_line": row is None,
            "no_text": not text,
            "no_label": not label,
            "too_long": len(text) > params.most_characters,
            "duplicate_text": text in seen,
        }
        if reason := first_fault(faults):
            run.reject(place, reason, text)
            continue
        seen.add(text)
        known.of_label.setdefault(label, []).append(len(known.texts))
        known.texts.append(text)
        known.labels.append(label)
    return known


def _triplet(row: int, known: _ClassTexts, params: ReadClassesParams, run: Run) -> dict[str, Any] | None:
    text, own = known.texts[row], known.of_label[known.labels[row]]
    if len(own) == 1:
        run.reject(short_id(text), "alone", f"{known.labels[row]}: {text}")
        return None
    positive = _other(own, row, seed_of("positive", text))
    place = seed_of("negative", text) % (len(known.texts) - len(own))
    negative = _not_among(own, place)
    name = short_id(params.name, text)
    start = f"{name} " if params.ids else ""
    others = (known.texts[place] for place in (positive, negative))
    like, unlike = (Passage(short_id(params.name, other), start + other) for other in others)
    return triplet(name, params.task, start + text, like, [unlike])


def _other(places: Sequence[int], own: int, drawn: int) -> int:
    """One of ``places`` that is not ``own``."""
    found = places[drawn % (len(places) - 1)]
    return places[-1] if found == own else found


def _not_among(places: Sequence[int], nth: int) -> int:
    """The ``nth`` place that is none of ``places``, which rise."""
    return nth + bisect_right(range(len(places)), nth, key=lambda at: places[at] - at)
