"""Judged questions of a domain: what people ask, and the sentences that answer.

A judgement quotes its evidence, so it holds however a corpus is cut into passages: a passage that has the quote has the
grade. Their documents are for scoring only.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_tasks.core.errors import InputError


class Judgement(BaseModel):
    """A quote and how well it serves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    grade: int = Field(ge=1, le=2, description="2 answers, 1 helps")
    evidence: str = Field(min_length=1, description="quoted from the document")


class Question(BaseModel):
    """One question, in words that are not the document's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(min_length=1)
    intent: str
    document: str = Field(min_length=1, description="name of the document that is quoted")
    judgements: tuple[Judgement, ...] = Field(min_length=1)


def load_questions(domain: Path) -> list[Question]:
    """The questions of the domain in the folder ``domain``; none where it has no ``questions.jsonl``.

    Raises:
        InputError: a line is not a question.
    """
    file = domain / "questions.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(Question.model_validate_json(line))
        except ValidationError as error:
            raise InputError(f"{file}, line {number}: {error.errors()[0]['msg']}") from error
    return found
