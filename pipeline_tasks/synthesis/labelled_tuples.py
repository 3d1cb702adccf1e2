"""Tuples that a person labels: a sample of what a check judged, out as a file without its verdicts, and back.

A row of the file is a tuple with the columns ``keep`` and ``failed``, which the person fills in. A tuple's id is made
of its texts, so that no label is taken for that of another tuple of the same query. What the check kept and what it
refused are drawn alike and in one order, by the hash of their ids.
"""

from __future__ import annotations

import csv
import heapq
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import writable
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.synthesis.check_tuples import QUESTIONS

TEXTS = (
    "instruction",
    "query",
    "positive",
    "poisoned_instruction",
    "instruction_passage",
    "poisoned_query",
    "query_passage",
)
"""What a person is shown of a tuple."""
_TO_FILL = ("tuple_id", "keep", "failed")
_FAILED = {column for column, _, _ in QUESTIONS}
_SAID = {"yes": True, "true": True, "no": False, "false": False, "": None}
_AT_ONCE = 10_000
_LETTER = "t"
"""Before an id, which a spreadsheet would take for a number where it is of digits alone."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is a formula to a spreadsheet."""


class Verdict(NamedTuple):
    """What a check made of one tuple.

    Attributes:
        tuple_id: ``t`` and 16 hex digits of sha256(query_id, texts).
        query_id: as in the datasets.
        keeps: whether the check keeps it.
        reason: of its refusal, with the detail; empty where it is kept.
        texts: column -> text.
    """

    tuple_id: str
    query_id: str
    keeps: bool
    reason: str
    texts: dict[str, str]


class Label(NamedTuple):
    """What a person said of one tuple; ``failed`` names the passage that does not fit, where they said which."""

    tuple_id: str
    keeps: bool
    failed: str


def verdicts(store: Store, ref: Ref) -> Iterator[Verdict]:
    """What a check kept and what it refused, with the texts that it saw.

    Raises:
        InputError: ``ref`` or what it was made from is not in the store, or it is not the output of a check.
    """
    checked = Version.open(store, ref, TUPLES)
    given = checked.manifest.inputs.get("tuples", [])
    if checked.manifest.rows_schema != TUPLES.name or not given:
        raise InputError(f"{checked.manifest.ref} is not what a check of tuples kept: name tuples/checked or the like")
    kept = {query_id for part in checked.parts(["query_id"]) for query_id in part["query_id"].to_pylist()}
    refused = {row["row_id"]: row for part in checked.rejects().parts() for row in part.to_pylist()}
    for seen in given:
        for block in Version.open(store, Ref.parse(seen), TUPLES).batches(["query_id", *TEXTS], _AT_ONCE):
            for row in block.to_pylist():
                query_id, why = row["query_id"], refused.get(row["query_id"])
                texts = {name: row[name] or "" for name in TEXTS}
                if query_id in kept or why:
                    reason = f"{why['reason']}: {why['detail']}".removesuffix(": ") if why else ""
                    yield Verdict(_LETTER + short_id(query_id, texts), query_id, not why, reason, texts)


def drawn(judged: Iterator[Verdict], n: int) -> list[Verdict]:
    """``n`` of them, or all where there are fewer, in an order that does not tell which are kept."""
    return heapq.nsmallest(n, judged, key=lambda one: unit_hash("label", one.tuple_id.removeprefix(_LETTER)))


def write_sample(sample: Sequence[Verdict], file: Path) -> None:
    """Write the tuples to be labelled, as CSV where the name ends in ``.csv``, else as JSONL.

    Raises:
        InputError: there is such a file, so that no label is lost, or it cannot be written.
    """
    rows = [{"tuple_id": one.tuple_id, "keep": "", "failed": ""} | one.texts for one in sample]
    encoding = "utf-8-sig" if _is_csv(file) else "utf-8"
    with writable(file, "name a file that is not there yet"), file.open("x", encoding=encoding, newline="") as handle:
        if _is_csv(file):
            writer = csv.DictWriter(handle, (*_TO_FILL, *TEXTS))
            writer.writeheader()
            writer.writerows({name: _as_text(text) for name, text in row.items()} for row in rows)
        else:
            handle.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def read_labels(file: Path) -> list[tuple[int, Label]]:
    """The labels of a file, each with the line that it begins on; what has none is left out.

    Raises:
        InputError: the file cannot be read, a row is none, its label is neither yes nor no, it names a question that is
            none or in a tuple that is to be kept, or a tuple is there twice; names the line.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error})") from error
    found: list[tuple[int, Label]] = []
    first: dict[str, int] = {}
    for line, row in _from_csv(text) if _is_csv(file) else _from_json(text):
        try:
            tuple_id, label = _label(row)
        except InputError as error:
            raise InputError(f"{file}, line {line}: {error}") from error
        if tuple_id in first:
            raise InputError(f"{file}, line {line}: tuple {tuple_id} is in line {first[tuple_id]} already: keep one")
        first[tuple_id] = line
        if label:
            found.append((line, label))
    return found


def matched(judged: Iterator[Verdict], labels: Sequence[tuple[int, Label]], file: Path) -> list[tuple[Label, Verdict]]:
    """Each label with what the check made of its tuple.

    Raises:
        InputError: the check judged no such tuple; names the line.
    """
    wanted = {label.tuple_id for _, label in labels}
    known = {one.tuple_id: one for one in judged if one.tuple_id in wanted}
    for line, label in labels:
        if label.tuple_id not in known:
            raise InputError(
                f"{file}, line {line}: tuple {label.tuple_id} is none that this check judged: "
                "name with --of a version that was made from the same tuples, or drop the line"
            )
    return [(label, known[label.tuple_id]) for _, label in labels]


def _label(row: Any) -> tuple[str, Label | None]:
    """The id of a row's tuple, and its label where it has one."""
    given = row if isinstance(row, dict) else {}
    tuple_id, keep, failed = (_cell_text(given.get(name)) for name in _TO_FILL)
    if not tuple_id:
        raise InputError("no tuple_id: fill in what `foundry agreement sample` wrote (as CSV, with commas)")
    tuple_id = tuple_id if tuple_id.startswith(_LETTER) else _LETTER + tuple_id  # of files from before
    if keep.lower() not in _SAID:
        raise InputError(f"keep is {keep!r}: write yes or no, or leave it empty")
    keeps = _SAID[keep.lower()]
    if failed and failed not in _FAILED:
        raise InputError(f"failed is {failed!r}: write {', '.join(sorted(_FAILED))}, or leave it empty")
    if failed and keeps is not False:
        raise InputError(f"failed is {failed!r}, but keep is {keep!r}: write no there, or empty failed")
    return tuple_id, None if keeps is None else Label(tuple_id, keeps, failed)


def _cell_text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _is_csv(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def _as_text(text: str) -> str:
    """What a spreadsheet shows as it is: no text of a model is run as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _from_csv(text: str) -> Iterator[tuple[int, Any]]:
    """Rows, each with the line that it begins on: a cell may hold line breaks."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    line = 1
    try:
        names, line = reader.fieldnames or (), reader.line_num + 1
        for row in reader:
            yield line, row if "tuple_id" in names else None
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"what begins in line {line} is no CSV ({error})") from error


def _from_json(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                yield number, None
