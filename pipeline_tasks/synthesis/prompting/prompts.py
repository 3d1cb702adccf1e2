"""Few-shot prompts from a domain's files: a passage's information need, then its query and positive passage.

A prompt is written as a text to be continued, because small models continue far better than they obey; models that
follow instructions have prompts of their own, in :mod:`~pipeline_tasks.synthesis.prompting.chat_prompts`. All prompts
of one kind and intent share their beginning to the byte and the passage comes last, so a server that caches prompts
reads the examples once.

An answer can be made to begin with a given word (its *lead*), chosen by a hash of the passage's id. Left alone, a
small model opens every question alike. Chat endpoints cannot continue a word, so their prompts have no lead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, Field

from pipeline_tasks.core.ids import digest, seed_of
from pipeline_tasks.domains.intents import read_toml
from pipeline_tasks.synthesis.prompting.focus import focus_of, subject_of

PASSAGE_LABEL = "Passage:"
FOCUS_LABEL = "Key sentence:"
PASSAGE_CHARS = 850


class Example(BaseModel):
    """One passage worked through by hand."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passage: str = Field(min_length=1)
    focus: str = Field(min_length=1, description="the sentence of the passage that need, query and positive are about")
    need: str = Field(min_length=1)
    query: str = Field(min_length=1)
    positive: str = Field(min_length=1)


class ChatExample(BaseModel):
    """One passage worked through by hand, in other words than the passage's."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    passage: str = Field(min_length=1)
    need: str = Field(min_length=1)
    query: str = Field(min_length=1)
    positive: str = Field(min_length=1)


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = Field(min_length=1)
    leads: tuple[str, ...] = ()
    max_tokens: int = Field(gt=0)
    max_chars: int = Field(gt=0, description="longest answer (of a pair: longest positive passage) that is kept")


class NeedForm(_Form):
    """How a need is asked for."""

    label: str = Field(min_length=1)


class PairForm(_Form):
    """How a query and its positive passage are asked for."""

    query_label: str = Field(min_length=1)
    positive_label: str = Field(min_length=1)
    query_first: bool = Field(description="False: the positive passage is written first, and the query for it")

    def labels(self) -> tuple[str, str]:
        """The labels in the order in which the answers are written."""
        labels = (self.query_label, self.positive_label)
        return labels if self.query_first else labels[::-1]

    def in_order(self, example: Example) -> tuple[str, str]:
        """The example's answers in that order."""
        answers = (example.query, example.positive)
        return answers if self.query_first else answers[::-1]


class ChatTerms(TypedDict):
    """How a chat is asked: whether the endpoint takes the form of its answer, and what the model reads and writes."""

    structured: bool
    context_tokens: int


@dataclass(frozen=True)
class Prompt:
    """One rendered prompt and what its answer has to be checked against.

    Attributes:
        text: what the model is sent; it ends with the label of the wanted answer and the lead.
        lead: the words the answer was made to begin with; empty where the model is free.
        labels: the labels of the wanted answers, in order.
        query_first: of a pair, whether the query comes before the positive passage.
        stop: where generation ends.
        max_tokens: the longest answer asked for.
        max_chars: the longest last answer that is kept.
        passage: the passage as the model saw it.
        seen: the examples' own answers, which no answer may repeat.
        seed: sampling seed, from the key alone.
        system: the instructions of a chat; empty where the text is all there is.
        turns: what was said in a chat before the text, by turns user and assistant.
        fields: of a chat, the fields of the JSON object that answers.
        structured: whether the endpoint is given the form of that object.
        context_tokens: of a chat, what the model reads and answers at once.
    """

    text: str
    lead: str
    labels: tuple[str, ...]
    query_first: bool
    stop: tuple[str, ...]
    max_tokens: int
    max_chars: int
    passage: str
    seen: tuple[str, ...]
    seed: int
    system: str = ""
    turns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    structured: bool = False
    context_tokens: int = 0

    @cached_property
    def sha256(self) -> str:
        """What the model is sent, in short."""
        return digest(self.text, self.system, *self.turns) if self.system else digest(self.text)


class PromptSet(BaseModel):
    """The two prompts of one intent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    need: NeedForm
    pair: PairForm
    examples: tuple[Example, ...] = Field(min_length=2)
    chat: tuple[ChatExample, ...] = Field((), description="examples for models that follow instructions")

    def for_chat(self) -> tuple[ChatExample, ...]:
        """Examples for models that follow instructions: their own, where there are any."""
        return self.chat or tuple(ChatExample(**example.model_dump()) for example in self.examples)

    def ask_need(self, passage: str, *, key: str, led: bool = True) -> Prompt:
        """The prompt for the information need that ``passage`` meets.

        Args:
            passage: any text; made one line and cut to :data:`PASSAGE_CHARS`.
            key: the passage's id; decides lead and seed.
            led: whether the answer is begun for the model (completion endpoints only).
        """
        form = self.need
        shown = clip(passage)
        focus = focus_of(shown, key)
        shots = [f"{_source(e.passage, e.focus)}\n{form.label} {e.need}" for e in self.examples]
        lead = _lead(form.leads, focus, key) if led else ""
        return Prompt(
            text=_text(form.task, shots, f"{_source(shown, focus_of(shown, key))}\n{form.label}", lead),
            lead=lead,
            labels=(form.label,),
            query_first=True,
            stop=("\n",),
            max_tokens=form.max_tokens,
            max_chars=form.max_chars,
            passage=shown,
            seen=tuple(e.need for e in self.examples),
            seed=seed_of("need", key),
        )

    def ask_pair(self, passage: str, need: str, *, key: str, led: bool = True) -> Prompt:
        """The prompt for a query that expresses ``need`` and a positive passage drawn from ``passage``.

        Args:
            passage: as for :meth:`ask_need`.
            need: the information need written for it.
            key: the passage's id; decides lead and seed.
            led: whether the answer is begun for the model (completion endpoints only).
        """
        form = self.pair
        shown = clip(passage)
        focus = focus_of(shown, key)
        labels = form.labels()
        shots = [
            f"{_source(e.passage, e.focus, f'{self.need.label} {e.need}')}\n"
            + "\n".join(f"{label} {answer}" for label, answer in zip(labels, form.in_order(e), strict=True))
            for e in self.examples
        ]
        wanted = f"{self.need.label} {clip(need)}"
        last = f"{_source(shown, focus, wanted)}\n{labels[0]}"
        lead = _lead(form.leads, focus, key) if led else ""
        return Prompt(
            text=_text(form.task, shots, last, lead),
            lead=lead,
            labels=labels,
            query_first=form.query_first,
            stop=("\n\n", f"\n{PASSAGE_LABEL}"),
            max_tokens=form.max_tokens,
            max_chars=form.max_chars,
            passage=shown,
            seen=tuple(answer for e in self.examples for answer in (e.query, e.positive)),
            seed=seed_of("pair", key),
        )


def load_prompts(domain: Path, intent: str) -> PromptSet:
    """The prompts of ``intent`` in the domain in the folder ``domain``.

    Raises:
        InputError: the file is missing, is not TOML, or lacks a field.
    """
    return read_toml(domain / "prompts" / f"{intent}.toml", PromptSet)


def clip(text: str, most: int = PASSAGE_CHARS) -> str:
    """``text`` on one line without control characters, cut to ``most`` characters at a sentence or a word.

    One line, because a passage must not be able to forge the labels of the prompt around it.
    """
    line = " ".join("".join(c if unicodedata.category(c)[0] != "C" else " " for c in text).split())
    if len(line) <= most:
        return line
    head = line[:most]
    sentence = head.rfind(". ") + 1
    return head[:sentence] if sentence > most // 2 else head.rpartition(" ")[0] or head


def _source(passage: str, focus: str, *between: str) -> str:
    return "\n".join([f"{PASSAGE_LABEL} {passage}", *between, f"{FOCUS_LABEL} {focus}"])


def _lead(leads: Sequence[str], focus: str, key: str) -> str:
    """One of ``leads``, its ``{subject}`` filled in, with a capital where the first that is not empty has one.

    An empty one, or a sentence without a subject, leaves the model free.
    """
    lead, subject = leads[seed_of("lead", key) % len(leads)] if leads else "", subject_of(focus, key)
    if not lead or ("{subject}" in lead and not subject):
        return ""
    lead, first = lead.replace("{subject}", subject), next(filter(None, leads))[0]
    return lead[0].upper() + lead[1:] if first == "{" or first.isupper() else lead


def _text(task: str, shots: Sequence[str], last: str, lead: str) -> str:
    return "\n\n".join([task, *shots, f"{last} {lead}".rstrip()])
