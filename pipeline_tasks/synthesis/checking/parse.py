"""What an LLM answered, as clean text or as the reason why it is no use. Answers are hostile until checked here.

Nothing raises on content. The checks are cheap and local; whether a query truly finds its passage is decided later, by
retrieval.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from pipeline_tasks.synthesis.checking.checks import Bounds, bounds_of, fault_of
from pipeline_tasks.synthesis.checking.measures import Draft
from pipeline_tasks.synthesis.prompting.prompts import PASSAGE_LABEL, Prompt

MAX_QUERY_CHARS = 300
MAX_ANSWER_CHARS = 20_000
UNPARSABLE = "unparsable"

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)|#\w+$")
_DECORATION = ' \t*_`"“”'
_EMPHASIS, _OPENS, _CLOSES = " \t*_`", '"“', '"”'
_UNPRINTED = "\n\t\u200c\u200d"
"""What stays of characters without a shape: the joiners spell words of Persian and Hindi, and emoji."""
_COMPLETION = bounds_of("completion", "")


@dataclass(frozen=True)
class Pair:
    """A query and the passage that answers it."""

    query: str
    positive: str


@dataclass(frozen=True)
class Rejected:
    """An answer that cannot be used; ``reason`` is a short fixed word for counting."""

    reason: str


def parse_need(answer: str, prompt: Prompt, *, cut_off: bool = False, bounds: Bounds = _COMPLETION) -> str | Rejected:
    """The information need in ``answer``: one line, grounded in the passage, and the model's own.

    Args:
        answer: the completion, without the prompt.
        prompt: what was asked.
        cut_off: whether generation ended at the token limit instead of a stop.
        bounds: what is checked; the prompt says how long a need may be, unless they do.
    """
    need = _tidy(_whole_answer(answer, prompt).partition("\n")[0], prompt.labels[0])
    return Rejected("too_long") if cut_off else need_of(need, prompt, {"query_chars": prompt.max_chars, **bounds})


def parse_pair(answer: str, prompt: Prompt, *, cut_off: bool = False, bounds: Bounds = _COMPLETION) -> Pair | Rejected:
    """The query and positive passage in ``answer``, both grounded in the passage and different from each other.

    Args:
        answer: the completion, without the prompt.
        prompt: what was asked.
        cut_off: whether generation ended at the token limit instead of a stop; the unfinished sentence is dropped.
        bounds: what is checked; the prompt says how long a positive may be, unless they do.
    """
    first_label, second_label = prompt.labels
    text = _whole_answer(answer, prompt)
    if not text.strip():
        return Rejected("empty_answer")
    head, found, tail = text.partition(second_label)
    if not found:
        return Rejected(UNPARSABLE)
    first = _tidy(head, first_label)
    second = _tidy(tail.strip().partition("\n")[0], second_label)
    if cut_off:
        second = _whole_sentences(second)
        if not second:
            return Rejected("too_long")
    query, positive = (first, second) if prompt.query_first else (second, first)
    longest = {"query_chars": MAX_QUERY_CHARS, "positive_chars": prompt.max_chars}
    return pair_of(query, positive, prompt, {**longest, **bounds})


def parse_fields(
    answer: str, *names: str, first_line: bool = False, numbers: bool = False
) -> dict[str, str] | Rejected:
    """The texts of a JSON object that has these fields and no other, on one line each.

    A model that puts its object into a block of code, a word before it, or a line break into a text, is understood.
    Marks of quotation go where a whole text stands between two of them.

    Args:
        answer: of the model.
        names: of the fields.
        first_line: what comes after the first line break of a text is left out, not joined to it.
        numbers: a whole number is a text, too.
    """
    text = _printable(answer)
    if not text.strip():
        return Rejected("empty_answer")
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1], strict=False)
    except (ValueError, RecursionError):
        return Rejected(UNPARSABLE)
    if numbers:
        found = {name: str(value) if type(value) is int else value for name, value in found.items()}
    if found.keys() != set(names) or not all(isinstance(value, str) for value in found.values()):
        return Rejected(UNPARSABLE)
    said = {name: _printable(text) for name, text in found.items()}  # an escape may stand for what is none
    kept = {name: text.strip().partition("\n")[0] if first_line else text for name, text in said.items()}
    return {name: _unquoted(text) for name, text in kept.items()}


def need_of(need: str, prompt: Prompt, bounds: Bounds, kind: Literal["need", "query"] = "need") -> str | Rejected:
    """``need``, or why it is none; a query alone is measured as one."""
    fault = fault_of(Draft(need, prompt.passage, seen=prompt.seen, lead=prompt.lead, kind=kind), bounds)
    return Rejected(fault) if fault else need


def pair_of(query: str, positive: str, prompt: Prompt, bounds: Bounds) -> Pair | Rejected:
    """``query`` and ``positive``, or why they are no pair."""
    fault = fault_of(Draft(query, prompt.passage, positive, prompt.seen, prompt.lead), bounds)
    return Rejected(fault) if fault else Pair(query, positive)


def _whole_answer(answer: str, prompt: Prompt) -> str:
    """The answer without control characters, after its lead, before anything that follows it."""
    text = _printable(answer).partition(PASSAGE_LABEL)[0]
    if not prompt.lead or not text.strip():
        return text.lstrip()
    begun = text.lstrip(_DECORATION + "\n").lower().startswith((prompt.lead.lower(), prompt.labels[0].lower()))
    return text.lstrip() if begun else prompt.lead + text


def _printable(answer: str) -> str:
    text = answer[:MAX_ANSWER_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in text if c in _UNPRINTED or unicodedata.category(c)[0] != "C")


def _tidy(text: str, label: str) -> str:
    text = " ".join(text.split()).strip(_DECORATION)
    if label and text.lower().startswith(label.lower()):
        text = text[len(label) :].strip(_DECORATION)
    return text


def _unquoted(text: str) -> str:
    """On one line, without marks of emphasis around it, or of quotation around all of it."""
    text = " ".join(text.split()).strip(_EMPHASIS)
    inner = text[1:-1]
    is_quoted = text[:1] in _OPENS and text[-1:] in _CLOSES and not {*inner} & {*_OPENS, *_CLOSES}
    return inner.strip(_EMPHASIS) if len(text) > 1 and is_quoted else text


def _whole_sentences(text: str) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]] if ends else ""
