"""What an LLM answered, as clean text or as the reason why it is no use. Answers are hostile until checked here.

Nothing raises on content. The checks are cheap and local; whether a query truly finds its passage is decided later, by
retrieval.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from pipeline_tasks.synthesis.prompts import PASSAGE_LABEL, Prompt

MIN_WORDS = 4
MAX_QUERY_CHARS = 300
MAX_ANSWER_CHARS = 20_000
COPIED_SHARE = 0.5
RUN = 4
GROUNDED_SHARE = 0.4

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_NUMBER = re.compile(r"\d+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)|#\w+$")
_MARKUP = re.compile(r"<\|?/?[A-Za-z!][^<>]{0,80}>|```|\{\{|https?://|www\.")
_DECORATION = ' \t*_`"“”'
_FILLER = frozenset(
    """about above after again against along among around because before being below between could during every from
    have having into more most much only other over passage people same should some such than that their them then there
    these they this those through under until very want wants what when where which while will with within without would
    your know""".split()
)


@dataclass(frozen=True)
class Pair:
    """A query and the passage that answers it."""

    query: str
    positive: str


@dataclass(frozen=True)
class Rejected:
    """An answer that cannot be used; ``reason`` is a short fixed word for counting."""

    reason: str


def parse_need(answer: str, prompt: Prompt, *, cut_off: bool = False) -> str | Rejected:
    """The information need in ``answer``: one line, grounded in the passage, and the model's own.

    Args:
        answer: the completion, without the prompt.
        prompt: what was asked.
        cut_off: whether generation ended at the token limit instead of a stop.
    """
    need = _tidy(_whole_answer(answer, prompt).partition("\n")[0], prompt.labels[0])
    if cut_off:
        return Rejected("too_long")
    fault = _fault(need, prompt, max_chars=prompt.max_chars)
    return Rejected(fault) if fault else need


def parse_pair(answer: str, prompt: Prompt, *, cut_off: bool = False) -> Pair | Rejected:
    """The query and positive passage in ``answer``, both grounded in the passage and different from each other.

    Args:
        answer: the completion, without the prompt.
        prompt: what was asked.
        cut_off: whether generation ended at the token limit instead of a stop; the unfinished sentence is dropped.
    """
    first_label, second_label = prompt.labels
    text = _whole_answer(answer, prompt)
    if not text.strip():
        return Rejected("empty_answer")
    head, found, tail = text.partition(second_label)
    if not found:
        return Rejected("unparsable")
    first = _tidy(head, first_label)
    second = _tidy(tail.strip().partition("\n")[0], second_label)
    if cut_off:
        second = _whole_sentences(second)
        if not second:
            return Rejected("too_long")
    query, positive = (first, second) if prompt.query_first else (second, first)
    fault = (
        _fault(query, prompt, max_chars=MAX_QUERY_CHARS)
        or _fault(positive, prompt, max_chars=prompt.max_chars)
        or ("query_is_passage" if _same(query, positive) else "")
    )
    return Rejected(fault) if fault else Pair(query, positive)


def content_of(text: str) -> set[str]:
    """What ``text`` is about: its longer words, by their first five letters so that endings do not matter."""
    return {w[:5] for w in _words(text) if (len(w) >= 4 or w.isdigit()) and w not in _FILLER}


def _whole_answer(answer: str, prompt: Prompt) -> str:
    """The answer without control characters, after its lead, before anything that follows it."""
    text = answer[:MAX_ANSWER_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c == "\n" or c == "\t" or unicodedata.category(c)[0] != "C")
    text = text.partition(PASSAGE_LABEL)[0]
    if not prompt.lead or not text.strip():
        return text.lstrip()
    begun = text.lstrip(_DECORATION + "\n").lower().startswith((prompt.lead.lower(), prompt.labels[0].lower()))
    return text.lstrip() if begun else prompt.lead + text


def _tidy(text: str, label: str) -> str:
    text = " ".join(text.split()).strip(_DECORATION)
    if text.lower().startswith(label.lower()):
        text = text[len(label) :].strip(_DECORATION)
    return text


def _whole_sentences(text: str) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]] if ends else ""


def _fault(text: str, prompt: Prompt, *, max_chars: int) -> str:
    """The first reason why ``text`` is no use, or nothing."""
    words = _words(text)
    if not words:
        return "empty_answer"
    if len(words) < MIN_WORDS:
        return "too_short"
    if len(text) > max_chars:
        return "too_long"
    if _MARKUP.search(text) or sum(c.isalpha() or c.isspace() for c in text) < 0.7 * len(text):
        return "garbled"
    if _repetitive(words):
        return "repetitive"
    if _copied(_words(_without_lead(text, prompt.lead)) or words, prompt):
        return "copied_example"
    about, source = content_of(text), content_of(prompt.passage)
    if len(about & source) < max(2, GROUNDED_SHARE * len(about)):
        return "off_passage"
    if set(_NUMBER.findall(text)) - set(_NUMBER.findall(prompt.passage)):
        return "new_number"
    return ""


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def _repetitive(words: list[str]) -> bool:
    """Whether a run of words comes twice, or few different words are used."""
    return max(_grams(words, RUN).values(), default=0) > 1 or len(set(words)) < 0.5 * len(words)


def _copied(words: list[str], prompt: Prompt) -> bool:
    """Whether half of the text's runs of words stand in one example's answer and not in the passage."""
    n = min(RUN, len(words))
    runs, own = set(_grams(words, n)), set(_grams(_words(prompt.passage), n))
    return any(len(runs & set(_grams(_words(seen), n)) - own) >= COPIED_SHARE * len(runs) for seen in prompt.seen)


def _without_lead(text: str, lead: str) -> str:
    return text[len(lead) :] if text.lower().startswith(lead.lower()) else text


def _same(one: str, other: str) -> bool:
    return set(_words(one)) == set(_words(other))
