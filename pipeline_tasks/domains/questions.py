"""Judged questions of a domain: what people ask, and the sentences that answer.

A judgement quotes its evidence, so it holds however a corpus is cut into passages: a passage that has the quote has the
grade. Their documents are for scoring only.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_tasks.core import durable
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.intents import complaints
from pipeline_tasks.domains.quotes import Quotes, stands_in

OWN_SETS = ("heldout", "questions")
"""Judged sets that a domain has without a folder: queries written for its held-out documents, and these questions."""


class Judgement(BaseModel):
    """A quote and how well it serves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grade: int = Field(ge=0, le=2, description="2 answers, 1 helps, 0 was read and does neither")
    evidence: str = Field(min_length=1, description="quoted from the document")


class Question(BaseModel):
    """One question, in words that are not the document's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1)
    intent: str
    document: str = Field(min_length=1, description="name of the document that is quoted")
    judgements: tuple[Judgement, ...] = Field(min_length=1)

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by: its query, whatever blanks that has, and its intent."""
        return " ".join(self.query.split()), self.intent


def load_questions(domain: Path) -> list[Question]:
    """The questions of the domain in the folder ``domain``; none where it has no ``questions.jsonl``.

    Raises:
        InputError: a line is not a question.
    """
    return read_questions(domain / "questions.jsonl")


def read_questions(file: Path) -> list[Question]:
    """The questions of a file, one a line; none where there is no file.

    Raises:
        InputError: a line is not a question.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n") if file.is_file() else []
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no UTF-8 text ({error}): save it as such") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Question.model_validate_json(line))
        except ValidationError as error:
            raise InputError(f"{file}, line {number}: {complaints(error)}") from error
    return found


def quotes(domain: Path) -> tuple[str, ...]:
    """All that the domain's questions quote as an answer or a help, once each, in one order."""
    judged = (judgement for question in load_questions(domain) for judgement in question.judgements)
    return tuple(sorted({judgement.evidence for judgement in judged if judgement.grade > 0}))


def add_judgements(file: Path, questions: Iterable[Question], texts: Iterable[str] = ()) -> int:
    """Add to a file what is judged anew; returns how many questions it has then.

    A question is known by its query and intent, a judgement by its evidence: the last grade holds. The file is replaced
    in one move, and of two that write it at once the second waits.

    Args:
        file: questions and judgements, a line each.
        questions: what is judged.
        texts: of each question the passage that was graded, where it is known: other grades of quotes that are found in
            it are grades of the same passage, and go, unless of a quote of another document that it has in part, or
            judged in this call in another passage.

    Raises:
        InputError: the file cannot be written, or a line of it is not a question.
    """
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file.parent):
            known: dict[tuple[str, str], Question] = {}
            for one in read_questions(file):
                known[one.key] = _merged(known[one.key], one) if one.key in known else one
            passages: dict[tuple[str, str], dict[str, str]] = {}
            for question, text in zip(questions, chain(texts, repeat("")), strict=False):
                key = question.key
                of = passages.setdefault(key, {})
                elsewhere = {evidence for evidence, passage in of.items() if passage != text}
                known[key] = _merged(known[key], question, text, elsewhere) if key in known else question
                of |= {judgement.evidence: text for judgement in question.judgements}
            fresh.write_text("".join(map(_line, known.values())), encoding="utf-8")
            durable.replace(fresh, file)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise InputError(f"{file} cannot be written ({error}): name another file to save to") from error
    return len(known)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _merged(old: Question, new: Question, text: str = "", elsewhere: Collection[str] = ()) -> Question:
    """Both's judgements, without others of ``text`` than the new one; the document is that of the better one.

    Evidence that is judged ``elsewhere`` stays.
    """
    given = {judgement.grade for judgement in new.judgements}
    found = {old.judgements[i].evidence for i in Quotes(one.evidence for one in old.judgements).found_in(text)}
    if old.document != new.document:
        found = {evidence for evidence in found if stands_in(evidence, text)}
    stay = [one for one in old.judgements if one.grade in given or one.evidence not in found.difference(elsewhere)]
    judgements = {judgement.evidence: judgement for judgement in (*stay, *new.judgements)}
    better = old if max((j.grade for j in stay), default=-1) >= max(given) else new
    return old.model_copy(update={"document": better.document, "judgements": tuple(judgements.values())})


def _line(question: Question) -> str:
    return json.dumps(question.model_dump(), ensure_ascii=False) + "\n"
