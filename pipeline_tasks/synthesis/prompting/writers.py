"""The kinds of writer: how each is asked about a passage, and how its answers are read. One contract for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.synthesis.checking.checks import Bounds, Kind, bounds_of, check_names
from pipeline_tasks.synthesis.checking.parse import (
    Pair,
    Rejected,
    need_of,
    pair_of,
    parse_fields,
    parse_need,
    parse_pair,
)
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.chat_prompts import NEED_FIELDS, PAIR_FIELDS, ChatPrompts
from pipeline_tasks.synthesis.prompting.instructing import repair
from pipeline_tasks.synthesis.prompting.prompts import Prompt, PromptSet, load_prompts
from pipeline_tasks.synthesis.prompting.traits import load_traits


class Writer(Protocol):
    """Writes needs and pairs of one intent."""

    def ask_need(self, passage: str, *, key: str) -> Prompt:
        """The prompt for an information need; ``key`` is the passage's id."""

    def ask_pair(self, passage: str, need: str, *, key: str) -> Prompt:
        """The prompt for a query with its positive; ``key`` is the passage's id."""

    def read_need(self, answer: Response, prompt: Prompt) -> str | Rejected:
        """The need in an answer, or why it has none."""

    def read_pair(self, answer: Response, prompt: Prompt) -> Pair | Rejected:
        """The pair in an answer, or why it has none."""

    def repair(self, answer: Response, prompt: Prompt) -> Prompt | None:
        """How to ask again, once, where an answer could not be read at all; None where that is no use."""


@dataclass(frozen=True)
class CompletionWriter:
    """A small model that continues a text; over a chat endpoint its answers have no lead."""

    prompts: PromptSet
    bounds: Bounds
    led: bool

    def ask_need(self, passage: str, *, key: str) -> Prompt:
        """Examples, the passage, and a label to continue."""
        return self.prompts.ask_need(passage, key=key, led=self.led)

    def ask_pair(self, passage: str, need: str, *, key: str) -> Prompt:
        """Examples, the passage, its need, and a label to continue."""
        return self.prompts.ask_pair(passage, need, key=key, led=self.led)

    def read_need(self, answer: Response, prompt: Prompt) -> str | Rejected:
        """The first line."""
        return parse_need(answer.text, prompt, cut_off=_is_cut_off(answer), bounds=self.bounds)

    def read_pair(self, answer: Response, prompt: Prompt) -> Pair | Rejected:
        """What stands behind the two labels."""
        return parse_pair(answer.text, prompt, cut_off=_is_cut_off(answer), bounds=self.bounds)

    def repair(self, answer: Response, prompt: Prompt) -> Prompt | None:
        """A model that does not follow instructions cannot be corrected."""
        return None


@dataclass(frozen=True)
class ChatWriter:
    """A model that follows instructions and answers with JSON."""

    prompts: ChatPrompts
    bounds: Bounds

    def ask_need(self, passage: str, *, key: str) -> Prompt:
        """The intent's definition, examples, and the passage as data."""
        return self.prompts.ask_need(passage, key=key)

    def ask_pair(self, passage: str, need: str, *, key: str) -> Prompt:
        """The intent's definition, examples, passage and need as data, and what is drawn for the pair."""
        return self.prompts.ask_pair(passage, need, key=key)

    def read_need(self, answer: Response, prompt: Prompt) -> str | Rejected:
        """The field ``need``."""
        found = _fields(answer, NEED_FIELDS)
        return found if isinstance(found, Rejected) else need_of(found["need"], prompt, self.bounds)

    def read_pair(self, answer: Response, prompt: Prompt) -> Pair | Rejected:
        """The fields ``query`` and ``positive``."""
        found = _fields(answer, PAIR_FIELDS)
        if isinstance(found, Rejected):
            return found
        return pair_of(found["query"], found["positive"], prompt, self.bounds)

    def repair(self, answer: Response, prompt: Prompt) -> Prompt | None:
        """One more turn, with what was wrong."""
        return repair(answer, prompt)


def writer_of(domain: Path, intent: str, params: LlmParams) -> Writer:
    """The writer of an intent's needs and pairs that the parameters ask for.

    Raises:
        InputError: the domain lacks a file, the writer needs another api, or ``checks`` names no measure.
    """
    check_names(params.checks)
    return WRITERS[params.kind](domain, intent, params)


def _completion(domain: Path, intent: str, params: LlmParams) -> Writer:
    bounds = bounds_of("completion", intent, params.checks)
    return CompletionWriter(load_prompts(domain, intent), bounds, led=params.api == "completions")


def _chat(domain: Path, intent: str, params: LlmParams) -> Writer:
    if params.api != "chat":
        raise InputError(f"writer={params.writer!r} speaks in messages, and api is {params.api!r}: set api=chat")
    meaning, examples = load_intents(domain)[intent], load_prompts(domain, intent).for_chat()
    traits = load_traits(domain, intent)
    prompts = ChatPrompts(intent, meaning, examples, traits, params.told_tokens, params.json_schema)
    return ChatWriter(prompts, bounds_of("chat", intent, params.checks))


WRITERS: dict[Kind, Callable[[Path, str, LlmParams], Writer]] = {"completion": _completion, "chat": _chat}


def _is_cut_off(answer: Response) -> bool:
    return answer.finish_reason == "length"


def _fields(answer: Response, names: tuple[str, ...]) -> dict[str, str] | Rejected:
    return Rejected("too_long") if _is_cut_off(answer) else parse_fields(answer.text, *names)
