"""Queries in a passage's own words: its title, its headings, its first sentence, its keyword phrases. No LLM.

The trade-off: such a query shares its words with its passage, so it teaches an embedder a corpus's terms, not how users
ask. They cost nothing, and work where no LLM may see the documents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.texts.words import stop_words

QuerySource = Literal["headings", "titles", "first_sentences", "phrases"]
SOURCES: tuple[QuerySource, ...] = get_args(QuerySource)

_PARAGRAPH_GAP = re.compile(r"\n\s*\n")
_SENTENCE_GAP = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W_](?:[\w'’-]*\w)?")
_NUMBERED = re.compile(r"^(?:(?:\d+\.)*\d+[.)]?|[ivxIVX]+[.)]|[A-Za-z][.)]|[•▪–-])\s+")
_FEWEST_WORDS = 2
_MOST_WORDS = {"headings": 14, "titles": 25, "first_sentences": 40, "phrases": 12}
_PHRASES, _LONGEST_PHRASE = 3, 4


class Extracted(NamedTuple):
    """A query, and where in its passage it is from."""

    source: QuerySource
    query: str


def extract(
    passage_id: str, title: str, text: str, *, begins: bool, sources: tuple[QuerySource, ...], most: int
) -> list[Extracted]:
    """At most ``most`` queries of a passage; which ones depends on the passage and its id alone.

    A query has at least two words that are no stop words, and none comes twice.

    Args:
        passage_id: decides which are taken, where there are more.
        title: of its document.
        text: of the passage, paragraphs a blank line apart.
        begins: whether its document begins with it: a title is a query for that passage alone.
        sources: where queries may be from.
        most: queries.
    """
    offered = {"titles": [title] if begins else [], **{source: find(text) for source, find in _IN_TEXT.items()}}
    found: dict[str, Extracted] = {}
    for source in (source for source in SOURCES if source in sources):
        for query in map(_clean, offered[source]):
            if len(_WORD.findall(query)) <= _MOST_WORDS[source] and len(_telling(query)) >= _FEWEST_WORDS:
                found.setdefault(query.lower(), Extracted(source, query))
    drawn = sorted(found.values(), key=lambda one: unit_hash("extract_queries", passage_id, *one))
    return drawn[:most]


def _headings(text: str) -> Iterator[str]:
    """Paragraphs of one line that are followed by another paragraph and do not end as a sentence does."""
    paragraphs = _PARAGRAPH_GAP.split(text.strip())
    for paragraph in paragraphs[:-1]:
        if "\n" not in paragraph and not re.search(r"[.!?;:,]$", paragraph.strip()):
            yield paragraph


def _first_sentences(text: str) -> Iterator[str]:
    """The first sentence of the first paragraph that holds one."""
    for paragraph in _PARAGRAPH_GAP.split(text.strip()):
        sentence = _SENTENCE_GAP.split(_clean(paragraph))[0]
        if re.search(r"[.!?]$", sentence):
            yield sentence
            return


def _phrases(text: str) -> Iterator[str]:
    """The best keyword phrases as one query: runs of words between stop words and punctuation.

    A word counts the length of the phrases that it is in over how often it comes, a phrase the sum of its words.

    Source: Rose, Engel, Cramer and Cowley 2010, "Automatic keyword extraction from individual documents" (RAKE).
        Departure: phrases of more than four words, which are lists and tables, are left out.
    """
    runs = [run for run in _runs(text) if len(run) <= _LONGEST_PHRASE]
    often, degree = Counter[str](), Counter[str]()
    for run in runs:
        for word in run:
            often[word] += 1
            degree[word] += len(run)
    scores = {run: sum(degree[word] / often[word] for word in run) for run in runs}
    best = sorted(scores, key=lambda run: (-scores[run], run))[:_PHRASES]
    yield " ".join(" ".join(run) for run in best)


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """Runs of words without a stop word, lower-cased; a number alone is none."""
    stop = stop_words()
    for clause in re.split(r"[.,;:!?()\[\]\"“”|\n]", text.lower()):
        run: list[str] = []
        for word in [*_WORD.findall(clause), ""]:
            if word and word not in stop:
                run.append(word)
            elif run:
                if any(any(map(str.isalpha, part)) for part in run):
                    yield tuple(run)
                run = []


_IN_TEXT: dict[str, Callable[[str], Iterable[str]]] = {
    "headings": _headings,
    "first_sentences": _first_sentences,
    "phrases": _phrases,
}


def _clean(query: str) -> str:
    return " ".join(_NUMBERED.sub("", query.strip()).split())


def _telling(query: str) -> set[str]:
    """Words that are no stop words and no numbers."""
    return {w for w in (word.lower() for word in _WORD.findall(query)) if w not in stop_words() and not w.isdigit()}
