"""Instructions that decide what answers a query, and poison for them: prompts, and how their answers are read.

Every prompt asks a model that follows instructions for one text. What is shown beside the task is material, as in
:mod:`~pipeline_tasks.synthesis.prompting.chat_prompts`.

Source: InF-IR 4.1 and appendices B.1 and H, in words of our own.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal, NamedTuple

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import seed_of
from pipeline_tasks.synthesis.checking.checks import bounds_of, check_names
from pipeline_tasks.synthesis.checking.parse import Rejected, need_of, parse_fields
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.chat_prompts import (
    LEAST_TOKENS,
    SPARE_TOKENS,
    as_material,
    chat_prompt,
    cut,
    repaired,
    tokens_of,
)
from pipeline_tasks.synthesis.prompting.prompts import Prompt

_PURPOSE = "You write data that teaches a search engine to follow instructions. You get a query"
_BOTH = _PURPOSE + ", an instruction that was given beside it, and a passage that fits both."
_DIFFERENT = """ Stay with the subject, and change what is wanted of it: another time, place, person or thing, the \
other side of it, effects in place of causes, the whole in place of a part. Somebody who compares "passage" with a \
passage that fits now must find three facts or more in which they differ. Change no more words than that takes."""


class Task(NamedTuple):
    """One text that is asked for.

    Attributes:
        field: of the answer.
        system: what the model is told.
        max_tokens: of the answer.
        checks: measures of :mod:`~pipeline_tasks.synthesis.checking.checks` that are taken of it.
        lines: off: what follows a line break is left out.
        kind: what it is measured as.
    """

    field: str
    system: str
    max_tokens: int
    checks: tuple[str, ...] = ("some_words", "refusals", "boilerplate", "english", "words", "symbols", "repeated")
    lines: bool = False
    kind: Literal["need", "query"] = "need"


INSTRUCTION = Task(
    "instruction",
    _PURPOSE
    + """ and a passage that answers it. Write the instruction that somebody gives beside this query, in one or two \
sentences: which of all passages that answer the query are wanted, for example as to aspect, place, time, reader or \
kind of text, so that this passage is one of them. It is understood without the passage, does not repeat the query \
and does not give the answer away.""",
    200,
)
POISONED_INSTRUCTION = Task(
    "instruction",
    _BOTH + " Write another instruction for the same query, under which this passage is wrong." + _DIFFERENT,
    200,
)
POISONED_QUERY = Task(
    "query",
    _BOTH
    + " Write another query to which the same instruction applies, and which this passage does not answer."
    + _DIFFERENT,
    160,
)
PASSAGE = Task(
    "text",
    _PURPOSE
    + """, an instruction that is given beside it, and a passage that does not fit them. Write the passage that fits: \
it answers this query as this instruction wants it, has the length and the style of the passage that you got, and \
differs from it in three facts or more.""",
    700,
    lines=True,
)


class InstructingParams(LlmParams):
    """Which model writes; it has to follow instructions itself. The domain's prompts are not read."""

    api: Literal["completions", "chat"] = Field("chat", description="API of the endpoint")

    def model_post_init(self, context: Any) -> None:
        """Refuse a model that continues texts, before anything is asked."""
        super().model_post_init(context)
        if self.api != "chat" or self.kind != "chat":
            raise InputError(
                f"api={self.api!r}, writer={self.writer!r}: this is written by a model that follows instructions; "
                "set api=chat and leave writer empty"
            )

    def identity(self) -> dict[str, Any]:
        """Model and sampling."""
        return self.sampling()


def ask(task: Task, key: str, params: LlmParams, passage: str, **texts: str) -> PromptTask[str] | Refusal:
    """A task about ``passage`` and other texts, by their names; ``key`` decides the seed of the sampling.

    Raises:
        InputError: the model's context has no room for a passage.
    """
    prompt = prompt_for(task.system, (task.field,), task.max_tokens, key, params, passage, **texts)
    if isinstance(prompt, Refusal):
        return prompt
    return PromptTask(prompt, partial(_read, task, bounds_for(task.checks, params), tuple(texts.values())), repair)


def prompt_for(
    directions: str, fields: tuple[str, ...], max_tokens: int, key: str, params: LlmParams, passage: str, **texts: str
) -> Prompt | Refusal:
    """The prompt that asks for ``fields`` as ``directions`` say; the passage and the other texts are material.

    Raises:
        InputError: the model's context has no room for a passage.
    """
    system = directions + as_material(fields, tuple(texts))
    room = room_for(params, max_tokens, system, tuple(texts.values()))
    if isinstance(room, Refusal):
        return room
    shown = cut(passage, room)
    user = json.dumps({**texts, "passage": shown}, ensure_ascii=False)
    seed = seed_of(directions, key)
    return chat_prompt(system, (), user, fields, max_tokens, shown, (system,), seed, **params.chat_terms)


def bounds_for(checks: tuple[str, ...], params: LlmParams) -> dict[str, float]:
    """The bounds of these measures, and of what the parameters name besides."""
    check_names(params.checks)
    bounds = bounds_of("chat", "", params.checks)
    return {name: bound for name, bound in bounds.items() if name in checks or name in params.checks}


def room_for(
    params: LlmParams, answer_tokens: int, system: str, texts: tuple[str, ...] = (), n_passages: int = 1
) -> int | Refusal:
    """Tokens that the model's context leaves for each of so many passages; a refusal where a row's ``texts`` take them.

    Raises:
        InputError: too few, whatever the row.
    """
    room = params.told_tokens - answer_tokens - SPARE_TOKENS - tokens_of(system)
    left = (room - sum(map(tokens_of, texts))) // n_passages
    if left >= LEAST_TOKENS:
        return left
    each = f"each of {n_passages} passages" if n_passages > 1 else "a passage"
    if room // n_passages >= LEAST_TOKENS:
        return Refusal("no_room", f"beside it {max(0, left)} tokens are left for {each}, of {LEAST_TOKENS} at least")
    thought = f" less reasoning_tokens={params.reasoning_tokens}" if params.reasoning_tokens else ""
    fewer = ", or show it fewer" if n_passages > 1 else ""
    raise InputError(
        f"context_tokens={params.context_tokens}{thought} leaves {max(0, room // n_passages)} tokens for {each}, and "
        f"{LEAST_TOKENS} are the least: take a model that reads more{fewer}"
    )


def repair(answer: Response, prompt: Prompt) -> Prompt | None:
    """One more turn, with what was wrong, unless the answer was cut off: the next would be as long."""
    unread = isinstance(parse_fields(answer.text, *prompt.fields), Rejected)
    return repaired(prompt, answer.text) if unread and answer.finish_reason != "length" else None


def _read(
    task: Task, bounds: dict[str, float], given: tuple[str, ...], answer: Response, prompt: Prompt
) -> str | Rejected:
    """The text, unless a check refuses it or it is one that was given."""
    if answer.finish_reason == "length":
        return Rejected("too_long")
    found = parse_fields(answer.text, task.field, first_line=not task.lines)
    if isinstance(found, Rejected):
        return found
    text = found[task.field]
    if text.casefold() in {one.casefold() for one in (*given, prompt.passage)}:
        return Rejected("unchanged")
    return need_of(text, prompt, bounds, task.kind)
