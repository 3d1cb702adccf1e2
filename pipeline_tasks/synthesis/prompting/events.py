"""Events of passages, and queries about them: prompts for a model that follows instructions, and how it is read.

Source: BMEmbed 3.1 and appendix A, in words of our own. Departure: one event a passage, its main one, in flat texts.
"""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from pipeline_tasks.domains.quotes import UNSPACED
from pipeline_tasks.synthesis.checking import phrases
from pipeline_tasks.synthesis.checking.checks import fault_of
from pipeline_tasks.synthesis.checking.measures import Draft
from pipeline_tasks.synthesis.checking.parse import Rejected, need_of, parse_fields
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.instructing import Task, bounds_for, prompt_for, repair
from pipeline_tasks.synthesis.prompting.prompts import Prompt

NO_EVENT, NOT_QUOTED = "none", "not_quoted"
_MAX_TOKENS = 400
_LEAST_QUOTED = 4
"""Words: fewer stand in a passage by chance."""
_LEAST_LETTERS = 12
_UNSPACED_LETTER = re.compile(rf"{UNSPACED.pattern}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Han, kana, Thai, Lao, Burmese and Khmer, whose words no blanks part: three letters are about a word."""
_CHECKS = ("some_words", "refusals", "boilerplate", "english", "words", "symbols", "repeated")

_BESIDE = {"refusals": 0.0, "boilerplate": 0.0, "query_chars": 600.0}
"""Bounds of the texts that are beside the event; they may be empty, and of a word or two."""

_EVENT = """You index the documents of an organisation. You get a passage. Name the main event that it tells of: what \
happened, was decided, was found, or is to be done. "event" says it in one sentence that is understood by itself, with \
names, products, codes, dates and amounts as they are written. "topic" says in a few words what it is about. \
"organisation" is whose event it is, and "participants" are the persons, bodies or things that take part, with commas \
between; both are empty where none is named. "evidence" is copied from the passage to the letter: the one or two \
sentences, in a row, that tell of the event. Where a passage tells of nothing, as a table of contents does, all texts \
are empty."""

QUERY = Task(
    "query",
    """You write what people type into the search of their organisation's documents. You get an event with its topic, \
its organisation, its participants and its evidence, and the passage that tells of it. Write one query of somebody who \
does not know the passage and wants to learn of this event: a question or a request, as such people put it. It names \
what is needed to tell this event from others like it, is understood by itself, is answered by the evidence, and does \
not copy its sentences.""",
    120,
    checks=(*_CHECKS, "query_chars", "unaware", "copied_run"),
    kind="query",
)


class Event(NamedTuple):
    """What a passage tells of.

    Attributes:
        event: in one sentence.
        topic: in a few words.
        organisation: whose it is; may be empty.
        participants: with commas between; may be empty.
        evidence: words of the passage.
    """

    event: str
    topic: str
    organisation: str
    participants: str
    evidence: str


def ask_event(key: str, params: LlmParams, passage: str) -> PromptTask[Event] | Refusal:
    """The main event of a passage; ``key`` decides the seed of the sampling.

    Raises:
        InputError: the model's context has no room for a passage.
    """
    prompt = prompt_for(_EVENT, Event._fields, _MAX_TOKENS, key, params, passage)
    if isinstance(prompt, Refusal):
        return prompt
    return PromptTask(prompt, partial(_read, bounds_for(_CHECKS, params)), repair)


def _read(bounds: dict[str, float], answer: Response, prompt: Prompt) -> Event | Rejected:
    """The event in an answer, unless a check refuses it or its evidence is not in the passage word for word."""
    if answer.finish_reason == "length":
        return Rejected("too_long")
    found = parse_fields(answer.text, *Event._fields)
    if isinstance(found, Rejected):
        return found
    event = Event(**found)
    if not any(event):
        return Rejected(NO_EVENT)
    kept = need_of(event.event, prompt, bounds)
    if isinstance(kept, Rejected):
        return kept
    if fault := next(filter(None, (_fault_beside(text, prompt) for text in event[1:4])), ""):
        return Rejected(fault)
    return event if is_quoted(event.evidence, prompt.passage) else Rejected(NOT_QUOTED)


def _fault_beside(text: str, prompt: Prompt) -> str:
    """Why a topic, an organisation or the participants are none: they are shown to a model again."""
    if phrases.ORDER.search(text):
        return "order"
    return fault_of(Draft(text, prompt.passage, kind="need"), _BESIDE)


def is_quoted(quote: str, passage: str) -> bool:
    """Whether ``quote`` stands in ``passage`` as it is, wherever lines are broken.

    It has four words or more, or twelve letters of scripts that part no words.
    """
    words = quote.split()
    long = len(words) >= _LEAST_QUOTED or len(_UNSPACED_LETTER.findall(quote)) >= _LEAST_LETTERS
    return long and " ".join(words) in " ".join(passage.split())
