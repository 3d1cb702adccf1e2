"""The three layouts that public sets of pairs have: rows that are pairs, rows with marked texts, and judgements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.models.registry import Entry
from pipeline_tasks.synthesis.files.pair_files import PairFiles, Place

Pairs = Iterator[tuple[Place, tuple[str, str] | str | None]]
"""The place of every row, and its query and positive; why it has none; None for a line that is no row."""
Read = Iterator[tuple[Place, dict[str, Any] | None]]
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_OTHER, _UNANSWERED = "not_of_the_set", "not_answered"


class Table(Entry):
    """Files with rows of one kind."""

    files: tuple[str, ...] = Field(min_length=1, description="patterns of their paths")
    names: tuple[str, ...] = Field((), description="of the columns, where TSV files have no first line with them")
    separator: str = Field("\t", description="between the columns of TSV files")
    hub: str = Field("", exclude=True, description="the data set that has them, where it is not the set's own")

    def opened(self, folder: str) -> PairFiles:
        """The files below ``folder``.

        Raises:
            InputError: there are none.
        """
        return PairFiles(folder, self.files, self.names, self.separator)

    def read(self, name: str, source: Source, *columns: str, also: tuple[str, ...] = ()) -> Read:
        """The rows of set ``name``, once the first of each file has these columns; it may have ``also``.

        A later row that lacks one is None, as a line that is none.

        Raises:
            InputError: it lacks one.
        """
        seen = ""
        for place, row in source.rows(self, (*columns, *also)):
            if row is not None and place.file != seen:
                seen = place.file
                require(name, place, row, *columns)
            yield place, row if row is not None and row.keys() >= {*columns} else None


class Source(Protocol):
    """Where the files of a set are.

    Attributes:
        reads_all: every row of a table is read, also where no more can be wanted of it.
    """

    reads_all: bool

    def rows(self, table: Table, columns: tuple[str, ...]) -> Read:
        """Every row of a table, with these of its columns at least, where it has them."""
        ...


class InFolder:
    """Below a folder, or ``s3://bucket/prefix``."""

    reads_all = True

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def rows(self, table: Table, columns: tuple[str, ...]) -> Read:
        """Every row, with all columns.

        Raises:
            InputError: there is no file.
        """
        return table.opened(self._folder).rows()


def require(name: str, place: Place, row: dict[str, Any], *columns: str) -> None:
    """That a row of set ``name`` has these columns.

    Raises:
        InputError: it lacks one.
    """
    for column in columns:
        if column not in row:
            raise InputError(
                f"set {name!r}: {place.file} has no column {column!r}; it has {', '.join(map(str, row)) or 'none'}. "
                "Take files of the layout that the set has on the hub, or read them by read_pairs with columns="
            )


def text_of(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """The texts of these columns, in one."""
    return " ".join(text for name in columns if (text := _text(row.get(name))))


def _text(value: Any) -> str:
    return "" if isinstance(value, bytes) else str(value or "").strip()


class Rows(Table):
    """A row is a pair."""

    query: str
    positive: tuple[str, ...]
    only: dict[str, tuple[str, ...]] = Field({}, description="column -> what it may say; other rows are not of the set")

    def tables(self) -> tuple[Table, ...]:
        """It is one."""
        return (self,)

    def identity(self, folder: str) -> str:
        """What the files hold."""
        return self.opened(folder).identity()

    def pairs(self, name: str, source: Source) -> Pairs:
        """Query and positive of every row."""
        for place, row in self.read(name, source, self.query, *self.positive, *self.only):
            if row is not None and any(str(row.get(column)) not in said for column, said in self.only.items()):
                yield place, _OTHER
            else:
                yield place, None if row is None else (text_of(row, (self.query,)), text_of(row, self.positive))


class Chosen(Table):
    """A row has a query and several texts, and marks those that answer it."""

    query: str
    within: str = Field(description="column that holds the texts and their marks")
    texts: str
    marks: str

    def tables(self) -> tuple[Table, ...]:
        """It is one."""
        return (self,)

    def identity(self, folder: str) -> str:
        """What the files hold."""
        return self.opened(folder).identity()

    def pairs(self, name: str, source: Source) -> Pairs:
        """A pair for each marked text."""
        seen = ""
        for place, row in self.read(name, source, self.query, self.within):
            held = None if row is None else row[self.within]
            if row is None or not isinstance(held, dict):
                yield place, None
                continue
            if place.file != seen:
                seen = place.file
                require(name, place, held, self.texts, self.marks)
            texts, marks = held.get(self.texts), held.get(self.marks)
            if not isinstance(texts, list) or not isinstance(marks, list) or len(texts) != len(marks):
                yield place, None
                continue
            marked = [text for text, mark in zip(texts, marks, strict=True) if mark]
            if not marked:
                yield place, _UNANSWERED
            for text in marked:
                yield place, (text_of(row, (self.query,)), _text(text))


class TextsWithIds(Table):
    """Texts with ids."""

    id: str
    text: tuple[str, ...]

    def texts(self, name: str, source: Source, wanted: set[str]) -> dict[str, str]:
        """The wanted texts by id; the title alone may be missing."""
        found: dict[str, str] = {}
        for _, row in self.read(name, source, self.id, self.text[-1], also=self.text[:-1]):
            if row is not None and (key := str(row[self.id])) in wanted:
                found[key] = text_of(row, self.text)
                if len(found) == len(wanted) and not source.reads_all:
                    break
        return found


class Judgements(Table):
    """Which document answers which query."""

    query: str
    document: str
    grade: str = Field(description="column of the grade; a document answers a query where it is above 0")


class Judged(Entry):
    """Queries, documents and judgements, as in BEIR."""

    queries: TextsWithIds
    corpus: TextsWithIds
    judgements: Judgements

    def tables(self) -> tuple[Table, ...]:
        """All three."""
        return self.queries, self.corpus, self.judgements

    def identity(self, folder: str) -> str:
        """What the files hold."""
        return digest(*(each.opened(folder).identity() for each in self.tables()))

    def pairs(self, name: str, source: Source) -> Pairs:
        """A pair for each judgement above 0, its texts empty where query or document is not there.

        The texts that judgements name are in memory, not the corpus.
        """
        table, found = self.judgements, []
        for place, row in table.read(name, source, table.query, table.document, table.grade):
            grade = "" if row is None else str(row[table.grade])
            if row is None or not _NUMBER.fullmatch(grade):
                yield place, None
            elif float(grade) > 0:
                found.append((place, str(row[table.query]), str(row[table.document])))
            else:
                yield place, _UNANSWERED
        queries = self.queries.texts(name, source, {query for _, query, _ in found})
        documents = self.corpus.texts(name, source, {document for _, _, document in found})
        for place, query, document in found:
            yield place, (queries.get(query, ""), documents.get(document, ""))
