"""A judged set on disk, in BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels``.

``corpus.jsonl`` has ``_id``, ``text`` and perhaps ``title``; ``queries.jsonl`` has ``_id``, ``text`` and perhaps
``intent``; ``qrels.tsv``, or ``qrels/<split>.tsv``, has a header and query-id, corpus-id, score.

Source: Thakur et al. 2021, "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models".
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_readable_file, named_path, where_to_name
from pipeline_tasks.core.step import StepParams

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"


class JudgedFolder:
    """One such folder.

    Attributes:
        path: where it is.
        qrels: the file of judgements.
    """

    def __init__(self, name: str, split: str = "test") -> None:
        """Of a folder's path, and the name of its judgements where there are several.

        Raises:
            InputError: there is no such folder, or a file of it is missing.
        """
        path = named_path(name)
        if path is None or not path.is_dir():
            raise InputError(f"folder={name!r} is no folder: name one with {CORPUS}, {QUERIES}, qrels{where_to_name()}")
        judged = (path / "qrels" / f"{split}.tsv", path / "qrels.tsv")
        found = next((file for file in judged if is_readable_file(file)), None)
        if found is None:
            raise InputError(
                f"{path} has neither qrels/{split}.tsv nor qrels.tsv: without judgements nothing is scored"
            )
        for file in (CORPUS, QUERIES):
            if not is_readable_file(path / file):
                raise InputError(f"{path} has no {file}: see the layout in docs/evaluation.md")
        self.path, self.qrels = path, found

    def identity(self) -> str:
        """What its files hold."""
        return digest([file_sha256(file) for file in (self.path / CORPUS, self.path / QUERIES, self.qrels)])

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects of one of its files, each with ``_id`` and ``text``.

        Raises:
            InputError: a line is none.
        """
        with (self.path / name).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    yield row | {"_id": str(row["_id"]), "text": str(row["text"])}
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(f"{self.path / name}, line {number}: no object with _id and text") from error

    def judgements(self) -> dict[str, dict[str, int]]:
        """Query id -> passage id -> grade.

        Raises:
            InputError: a line is not a query, a passage and a whole number.
        """
        found: dict[str, dict[str, int]] = {}
        with self.qrels.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file, delimiter="\t"), 1):
                if number == 1 and row[-1:] == ["score"]:
                    continue
                try:
                    query, passage, grade = row
                    found.setdefault(query, {})[passage] = int(grade)
                except ValueError as error:
                    raise InputError(f"{self.qrels}, line {number}: not query-id, corpus-id and score") from error
        return found


class FolderParams(StepParams):
    """A judged set on disk."""

    set_name: str = Field(description="name of the set here")
    folder: str = Field(description="folder with corpus.jsonl, queries.jsonl and qrels")
    split: str = Field("test", description="which qrels/<split>.tsv, where there are several")
    _folder: JudgedFolder | None = PrivateAttr(None)

    def model_post_init(self, context: Any) -> None:
        """Find the files."""
        self._folder = JudgedFolder(self.folder, self.split) if self.folder else None

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the files hold, wherever they lie."""
        return super().identity() | {"folder": self._folder.identity() if self._folder else ""}

    def open(self) -> JudgedFolder:
        """The folder.

        Raises:
            InputError: none is named.
        """
        if self._folder is None:
            raise InputError(f"folder is empty: name one with {CORPUS}, {QUERIES} and qrels")
        return self._folder
