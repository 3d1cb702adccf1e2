"""Tuples that are what they claim: a model that reasons finds the right passage for each of their three questions."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Sequence, Set
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import seed_of, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.synthesis.checking.parse import UNPARSABLE, Rejected, parse_fields
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, Written, write_all
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.prompting.chat_prompts import as_material, chat_prompt, cut
from pipeline_tasks.synthesis.prompting.instructing import InstructingParams, repair, room_for
from pipeline_tasks.synthesis.prompting.prompts import Prompt

QUESTIONS = (
    ("positive", "instruction", "query"),
    ("instruction_passage", "poisoned_instruction", "query"),
    ("query_passage", "instruction", "poisoned_query"),
)
"""What a tuple claims: the column of the passage that fits, under which instruction, for which query."""
_FIELDS = ("reasoning", "number")
_TOKENS = 1_500
_CHOICE = re.compile(r"(?:(?:the )?(?:passage|number|no\.?|#)?\s*)[\[(#]?(\d{1,4})[\])]?\.?", re.IGNORECASE)
_SYSTEM = """\
You check the data of a search engine that follows instructions. You get a query, an instruction that was given beside \
it, and numbered passages. One of them is the best answer to the query among those that are as the instruction wants \
them. Say in a few sentences what the instruction asks for and which passages meet it, then give the number of that \
passage; if none fits, or several fit as well, the number is 0."""


class CheckTuplesParams(InstructingParams):
    """Which model checks, and among what it has to find the right passage."""

    n_distractors: int = Field(
        3, ge=0, description="distractors: passages of other tuples shown beside those of a tuple"
    )


class Choice(NamedTuple):
    """Passages that are shown for a question, in an order that tells nothing.

    Attributes:
        columns: of the tuple, or empty for a distractor.
        texts: of the passages.
    """

    columns: tuple[str, ...]
    texts: tuple[str, ...]


@step(
    reads={"tuples": From(TUPLES, "tuples/poisoned")},
    writes=TUPLES,
    kind="map",
    dataset="tuples/checked",
    version="7",
    pool="llm",
    secrets=("llm",),
)
def check_tuples(rows: pa.Table, params: CheckTuplesParams, run: Run) -> pa.Table:
    """Keep the tuples of which the model finds the right passage for all three questions.

    Shown are the positive, both passages that were written for the poison, and positives of other tuples of this part,
    in an order by the tuple's id; where there are too few others, ``few_distractors`` counts it. Reasons of rejects:
    ``not_poison`` (for the original instruction and query it finds a passage that was written for poison),
    ``ambiguous`` (else it finds another one than it should, or none), and those of answers that cannot be read. What it
    said instead is in the reject, its reasoning in the response store alone.

    Source: InF-IR 4.1, "Data quality check".
    """
    tuples = sorted(rows.to_pylist(), key=lambda row: row["query_id"])
    positives = {row["positive"] for row in tuples}
    shown = [choices_of(row, positives, params.n_distractors) for row in tuples]
    run.count("few_distractors", sum(choice.columns.count("") < params.n_distractors for choice in shown))
    asked = [
        _ask(row, n, choice, params) for row, choice in zip(tuples, shown, strict=True) for n in range(len(QUESTIONS))
    ]
    answers = write_all(asked, "check", params, run)
    kept = []
    for place, (row, choice) in enumerate(zip(tuples, shown, strict=True)):
        found = answers[place * len(QUESTIONS) : (place + 1) * len(QUESTIONS)]
        if fault := _fault(found, choice):
            run.reject(row["query_id"], *fault)
        else:
            kept.append(row)
    return TUPLES.table(kept)


def choices_of(row: dict[str, Any], positives: Set[str], n_distractors: int) -> Choice:
    """What is shown for the questions of a tuple: the same for all three; ``positives`` of others are distractors."""
    own = {column: row[column] for column, _, _ in QUESTIONS}
    others = positives - set(own.values())
    drawn = heapq.nsmallest(n_distractors, others, key=lambda text: unit_hash("distractor", row["query_id"], text))
    offered = [*own.items(), *(("", text) for text in drawn)]
    mixed = sorted(offered, key=lambda one: unit_hash("order", row["query_id"], one[1]))
    return Choice(*map(tuple, zip(*mixed, strict=True)))


def _ask(row: dict[str, Any], question: int, choice: Choice, params: CheckTuplesParams) -> PromptTask[int] | Refusal:
    _, instruction, query = QUESTIONS[question]
    system = _SYSTEM + as_material(_FIELDS, ("query", "instruction"))
    room = room_for(params, _TOKENS, system, (row[instruction], row[query]), len(choice.texts))
    if isinstance(room, Refusal):
        return room
    passages = [{"number": n, "passage": cut(text, room)} for n, text in enumerate(choice.texts, 1)]
    user = json.dumps({"query": row[query], "instruction": row[instruction], "passages": passages}, ensure_ascii=False)
    seed = seed_of("check", row["query_id"], str(question))
    prompt = chat_prompt(system, (), user, _FIELDS, _TOKENS, "", (system,), seed, **params.chat_terms)
    return PromptTask(prompt, partial(_number, len(choice.texts)), _repair)


def _repair(answer: Response, prompt: Prompt) -> Prompt | None:
    """One more turn, unless the answer is what was asked for, the number as a number."""
    return None if isinstance(_fields(answer, prompt), dict) else repair(answer, prompt)


def _fields(answer: Response, prompt: Prompt) -> dict[str, str] | Rejected:
    return parse_fields(answer.text, *prompt.fields, numbers=True)


def _number(most: int, answer: Response, prompt: Prompt) -> int | Rejected:
    """Which passage the answer names, 0 for none."""
    found = _fields(answer, prompt)
    if isinstance(found, Rejected):
        return Rejected("too_long") if answer.finish_reason == "length" else found
    said = _CHOICE.fullmatch(found["number"].strip())
    return int(said[1]) if said and int(said[1]) <= most else Rejected(UNPARSABLE)


def _fault(found: Sequence[Written[int] | Refusal], choice: Choice) -> tuple[str, str] | None:
    """Why a tuple is refused, and what the model found in place of what it should; None: it is kept."""
    named = []
    for one in found:
        if isinstance(one, Refusal):
            return one.reason, one.detail
        named.append(choice.columns[one.value - 1] or "distractor" if one.value else "none")
    wrong = [f"{column}: {said}" for (column, _, _), said in zip(QUESTIONS, named, strict=True) if said != column]
    if not wrong:
        return None
    poison = named[0] in {column for column, _, _ in QUESTIONS[1:]}
    return "not_poison" if poison else "ambiguous", ", ".join(wrong)
