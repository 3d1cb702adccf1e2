"""The pool of a domain's questions: what several systems rank highest, to be graded by a person or an LLM.

A row tells neither who found the passage nor at which rank, and the rows of a question come in the order of their ids:
whoever grades sees the question and the passage alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.ask.judging import GRADES, grades, judged
from pipeline_tasks.ask.quotes import nearest, plain
from pipeline_tasks.ask.systems import System
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.disk import writable
from pipeline_tasks.domains.questions import Question

_HEADING = re.compile(r"## (?P<intent>\S+): (?P<query>.+)")
_GRADE = re.compile(r"[-*+]\s+(?i:grade)\s*:(?P<grade>.*?)(?i:passage) (?P<passage_id>.+)")
_QUOTE = re.compile(r"[-*+]\s+(?i:quote)\s*:(?P<quote>.*)")
_MEANT = re.compile(r"(?!>)[^\w>]*(?i:grade|quote)\s*:.*")
"""A line that an editor, or a person, made into something else."""
_HELP = (
    f"Write a grade after each `grade:`: {', '.join(f'{n} {word}' for n, word in GRADES.items())}. "
    "What has none is left out. The quote has to stand in the passage, word by word: "
    "mend it where another sentence is the evidence."
)


class Row(BaseModel):
    """One passage to grade for one question."""

    model_config = ConfigDict(extra="ignore")

    query: str
    intent: str
    passage_id: str
    quote: str
    grade: int | None = None
    text: str = ""
    title: str = ""
    url: str = ""
    page: int | None = None


def pooled(corpus: Corpus, systems: Sequence[System], questions: Sequence[Question], most: int) -> list[Row]:
    """The ``most`` best passages of each system for each question, once each, with what is judged of them already.

    Raises:
        InputError: there are no questions, or no system.
    """
    if not questions or not systems:
        raise InputError("there is nothing to pool: the domain has no questions.jsonl, or no system is named")
    queries, intents = [q.query for q in questions], [q.intent for q in questions]
    found: list[set[int]] = [set() for _ in questions]
    for system in systems:
        for seen, places in zip(found, system.search(queries, intents, most)[0], strict=True):
            seen.update(int(place) for place in places if place >= 0)
    kept = [[corpus.rows.slice(place, 1).to_pylist()[0] for place in sorted(places)] for places in found]
    marked = nearest(systems[-1], queries, intents, [[row["text"] for row in rows] for rows in kept])
    made = []
    for question, rows, quotes in zip(questions, kept, marked, strict=True):
        texts = {row["passage_id"]: row["text"] for row in rows}
        known = grades([question], question.query, question.intent, texts)
        for row, quote in zip(rows, quotes, strict=True):
            judgement = known.get(row["passage_id"])
            given = {"grade": judgement.grade, "quote": judgement.evidence} if judgement else {"quote": plain(quote)}
            shown = {name: row[name] for name in ("passage_id", "text", "title", "url", "page")}
            values = {name: value for name, value in shown.items() if value is not None}
            made.append(Row.model_validate({"query": question.query, "intent": question.intent} | values | given))
    return made


def write_pool(rows: Sequence[Row], file: Path) -> None:
    """Write rows as JSONL, or as Markdown where the name ends in ``.md``.

    Raises:
        InputError: there is such a file, so that no grade is lost, or it cannot be written.
    """
    text = _markdown(rows) if _is_markdown(file) else "".join(f"{_json(row)}\n" for row in rows)
    with writable(file, "name a file that is not there yet"), file.open("x", encoding="utf-8") as handle:
        handle.write(text)


def read_pool(corpus: Corpus, file: Path) -> list[tuple[Question, str]]:
    """The judgements of a graded pool, each checked against its passage, whose text is beside it.

    What has no grade is left out.

    Raises:
        InputError: a row is none, its grade is none, or its passage does not hold the quote; names the line.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error})") from error
    found = []
    for number, given in _from_markdown(file, lines) if _is_markdown(file) else _from_json(lines):
        try:
            row = Row.model_validate(given)
            if row.grade is not None:
                question = judged(corpus, row.query, row.intent, row.passage_id, row.grade, row.quote)
                found.append((question, corpus.passage(row.passage_id)["text"]))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{file}, line {number}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from error
    return found


def _is_markdown(file: Path) -> bool:
    return file.suffix.lower() == ".md"


def _json(row: Row) -> str:
    return json.dumps(row.model_dump(), ensure_ascii=False)


def _markdown(rows: Sequence[Row]) -> str:
    """A heading a question; each line of a passage is quoted, so that nothing in it can pass for a grade."""
    said, asked = [f"# Passages to grade\n\n{_HELP}"], ("", "")
    for row in rows:
        if asked != (row.query, row.intent):
            asked = (row.query, row.intent)
            said.append(f"## {row.intent}: {plain(row.query)}")
        grade = "" if row.grade is None else row.grade
        quoted = "\n".join(f"> {line}" for line in row.text.splitlines())
        where = plain(f"{row.title}, page {row.page or '?'}, {row.url}")
        said.append(
            f"- grade: {grade} passage {row.passage_id}\n- quote: {plain(row.quote)}\n\n> *{where}*\n>\n{quoted}"
        )
    return "\n\n".join(said) + "\n"


def _from_markdown(file: Path, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """A row for each grade and the quote behind it, which may go on over several lines."""
    question: dict[str, Any] = {}
    row: dict[str, Any] = {}
    at = 0
    for number, line in enumerate([*map(str.strip, lines), ""], 1):
        if found := _GRADE.fullmatch(line):
            if row:
                break
            at, row = number, question | found.groupdict()
            row["grade"] = row["grade"].strip() or None
        elif (found := _QUOTE.fullmatch(line)) and row and "quote" not in row:
            at, row["quote"] = number, found["quote"].strip()
        elif _MEANT.fullmatch(line):
            raise InputError(
                f"{file}, line {number}: {line[:80]!r} is no `- grade: … passage …`, or no quote behind it"
            )
        elif "quote" in row and line and line[0] not in ">#":
            row["quote"] += f" {line}"
        elif "quote" in row:
            yield at, row
            row = {}
        if found := _HEADING.fullmatch(line):
            question = found.groupdict()
    if row:
        raise InputError(f"{file}, line {at}: the grade has no line `- quote: …` behind it: write one")


def _from_json(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                yield number, {}
