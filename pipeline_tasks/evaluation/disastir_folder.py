"""DisastIR as it is published: ``corpus.jsonl``, and in ``query/`` and ``qrels/`` a file of each intent and event type.

``corpus.jsonl`` has ``corpus_id`` and ``text``; files in ``query/`` have ``query_id`` and ``user_query``; files in
``qrels/`` have ``user_query``, ``passage`` (a text of the corpus) and ``score`` (0 to 3). A file is a JSON array, or an
object a line. Its name has to begin with the intent: ``QA_Bio.json``, ``fact-check_Geo.json``.

Source: Yin et al. 2025, "DisastIR: A Comprehensive Information Retrieval Benchmark for Disaster Management".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256, short_id
from pipeline_tasks.core.local_files import is_readable_file
from pipeline_tasks.evaluation.judged_folder import CORPUS, JudgedFolder, grade_of, id_of, not_utf8, text_of

_INTENTS = {
    "qadoc": "qadoc", "qa": "qa", "twitter": "twitter", "tw": "twitter", "factcheck": "factcheck", "fc": "factcheck",
    "nli": "nli", "sts": "sts",
}  # fmt: skip
"""How a file's name says an intent, letters alone -> the intent."""


class DisastIRFolder(JudgedFolder):
    """One such folder. A query's id is its file's name and its own id there, so the event type stays in it."""

    def __init__(self, path: Path) -> None:
        """Of a folder with all of the three.

        Raises:
            InputError: one is missing, or a file's name says no intent, or an intent has queries and no judgements.
        """
        self.path = path
        self._queries, self._qrels = (_files(path / name) for name in ("query", "qrels"))
        if not is_readable_file(path / CORPUS):
            raise InputError(f"{path} has no {CORPUS}: fetch the whole of DisastIR, see docs/evaluation.md")
        judged = {intent_of(file) for file in self._qrels}
        for file in self._queries:
            if intent_of(file) not in judged:
                raise InputError(
                    f"{file} has queries of {intent_of(file)}, and no file in {path / 'qrels'} judges these"
                )

    def identity(self) -> str:
        """What its files hold, and how those are called that say an intent."""
        named = [(file.parent.name, file.name, file_sha256(file)) for file in (*self._queries, *self._qrels)]
        return digest([file_sha256(self.path / CORPUS), named])

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Passages, or queries with their intent, each with ``_id`` and ``text``.

        Raises:
            InputError: a file holds something else.
        """
        if name == CORPUS:
            for row in _objects(self.path / CORPUS, "corpus_id", "text"):
                with _file_in_errors(self.path / CORPUS):
                    one = {"_id": id_of(row["corpus_id"]), "text": text_of(row["text"])}
                yield one
            return
        for file in self._queries:
            for row in _objects(file, "query_id", "user_query"):
                with _file_in_errors(file):
                    one = {"_id": f"{file.stem}/{id_of(row['query_id'])}", "text": text_of(row["user_query"])}
                yield one | {"intent": intent_of(file)}

    def judgements(self) -> dict[str, dict[str, int]]:
        """Query id -> passage id -> grade, which all passages of one text have.

        A passage that the corpus does not have is called by a hash of its text.

        Raises:
            InputError: a file holds something else, or a grade is no whole number up to 1,000.
        """
        passages: dict[str, list[str]] = {}
        for row in self.rows(CORPUS):
            passages.setdefault(row["text"], []).append(row["_id"])
        asked: dict[tuple[str, str], list[str]] = {}
        for row in self.rows("query"):
            asked.setdefault((row["intent"], row["text"]), []).append(row["_id"])
        found: dict[str, dict[str, int]] = {}
        for file in self._qrels:
            for row in _objects(file, "user_query", "passage", "score"):
                with _file_in_errors(file):
                    text, grade = text_of(row["passage"]), grade_of(row["score"])
                    key = intent_of(file), text_of(row["user_query"])
                known = passages.get(text) or [short_id(text)]
                for query_id in asked.get(key, [short_id(*key)]):
                    found.setdefault(query_id, {}).update(dict.fromkeys(known, grade))
        return found


def intent_of(file: Path) -> str:
    """The intent that a file's name begins with.

    Raises:
        InputError: it begins with none.
    """
    words = [word for word in re.split(r"[^a-z]+", file.stem.lower()) if word]
    for said in ("".join(words[:2]), *words[:1]):
        if said in _INTENTS:
            return _INTENTS[said]
    raise InputError(f"{file}: its name says no intent: begin it with one of {', '.join(_INTENTS)}, like QA_Bio.json")


def _files(folder: Path) -> list[Path]:
    found = sorted(file for file in folder.glob("*.json") if is_readable_file(file))
    if not found:
        raise InputError(f"{folder} has no .json file: fetch the whole of DisastIR, see docs/evaluation.md")
    return found


@contextmanager
def _file_in_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError(f"{file}: {error}") from error


def _objects(file: Path, *fields: str) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8-sig") as lines:
        try:
            whole = lines.read(1) == "["
            lines.seek(0)
            rows = json.load(lines) if whole else (json.loads(line) for line in lines if line.strip())
            for row in rows:
                missing = [name for name in fields if name not in row]
                if missing:
                    raise InputError(f"{file}: an object has no {missing[0]}; it has {', '.join(row)}")
                yield row
        except UnicodeDecodeError as error:
            raise not_utf8(file, error) from error
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{file} is neither a JSON array of objects nor one object a line ({error})") from error
