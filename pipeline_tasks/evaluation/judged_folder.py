"""A judged set in a folder in BEIR's layout: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels``.

``corpus.jsonl`` has ``_id``, ``text`` and perhaps ``title``; ``queries.jsonl`` has ``_id``, ``text`` and perhaps
``intent``; ``qrels.tsv``, or ``qrels/<split>.tsv``, has a header and query-id, corpus-id, score.

Source: Thakur et al. 2021, "BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models".
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_readable_file

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
MOST = 1_000
"""The highest grade: trec_eval makes room for every one up to it."""


class JudgedFolder:
    """One such folder.

    Attributes:
        path: where it is.
        qrels: the file of judgements.
    """

    def __init__(self, path: Path, split: str = "test") -> None:
        """Of a folder, and the name of its judgements where there are several.

        Raises:
            InputError: a file of it is missing.
        """
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
        """The objects of one of its files, each with ``_id`` and ``text``; ``title`` and ``intent`` are texts, too.

        Raises:
            InputError: a line is none, or the file is not UTF-8.
        """
        path, number = self.path / name, 0
        try:
            with path.open(encoding="utf-8-sig") as lines:
                for number, line in enumerate(lines, 1):  # noqa: B007
                    if line.strip():
                        row = json.loads(line)
                        known = {"_id": id_of(row["_id"]), "text": text_of(row["text"])}
                        yield row | known | {of: text_of(row.get(of) or "") for of in ("title", "intent")}
        except UnicodeDecodeError as error:
            raise not_utf8(path, error) from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what = "no object with _id and text, whose title and intent, where it has any, are texts, too"
            raise InputError(f"{path}, line {number}: {what} ({error})") from error

    def judgements(self) -> dict[str, dict[str, int]]:
        """Query id -> passage id -> grade.

        Raises:
            InputError: a line is not a query, a passage and a whole number up to 1,000, or the file is not UTF-8.
        """
        found: dict[str, dict[str, int]] = {}
        number = 0
        try:
            with self.qrels.open(newline="", encoding="utf-8-sig") as file:
                for number, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
                    if row and not (number == 1 and row[-1] == "score"):
                        query, passage, grade = row
                        found.setdefault(query, {})[passage] = grade_of(int(grade))
        except UnicodeDecodeError as error:
            raise not_utf8(self.qrels, error) from error
        except (ValueError, csv.Error) as error:
            raise InputError(
                f"{self.qrels}, line {number}: not query-id, corpus-id and a whole score up to {MOST} ({error})"
            ) from error
        return found


class CorpusFolder(JudgedFolder):
    """A folder with the texts of a set alone, and no judgements."""

    def __init__(self, path: Path) -> None:
        """Of a folder.

        Raises:
            InputError: it has no corpus.
        """
        if not is_readable_file(path / CORPUS):
            raise InputError(f"{path} has no {CORPUS}: see the layout in docs/evaluation.md")
        self.path = path

    def identity(self) -> str:
        """What its file holds."""
        return file_sha256(self.path / CORPUS)


def not_utf8(path: Path, error: UnicodeDecodeError) -> InputError:
    """What is told of a file in another encoding."""
    return InputError(f"{path} is not UTF-8 ({error}): write it as UTF-8")


def grade_of(value: Any) -> int:
    """A grade as a file has it.

    Raises:
        ValueError: it is no whole number from -1,000 to 1,000.
    """
    if type(value) is not int or abs(value) > MOST:
        raise ValueError(f"the score {value!r} is no whole number up to {MOST}")
    return value


def id_of(value: Any) -> str:
    """An id as a file has it; it may be a number.

    Raises:
        ValueError: it is null.
    """
    if value is None:
        raise ValueError("an id is null")
    return text_of(value)


def text_of(value: Any) -> str:
    """A text as a file has it; empty where that says null.

    Raises:
        ValueError: it is a list, an object, or true; or it holds half of a character, which no table can.
    """
    if isinstance(value, list | dict | bool):
        raise ValueError(f"{str(value)[:40]!r} is no text")
    found = "" if value is None else str(value)
    found.encode()
    return found
