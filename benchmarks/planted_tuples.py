"""Tuples by rules: queries of a judged set with instructions of which the words of passages decide what they want.

The :mod:`wordings` are other ones than those by which models are scored, so that a model which learned a sentence by
heart gains nothing; or, where that is asked for, these very ones.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from judged_sets import JudgedSet, Query
from wordings import worded

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.evaluation.altered_instructions import EITHER, ONLY, WITHOUT, words_of

Kind = Literal["wants", "leaves", "turns", "turned", "either"]
KINDS: tuple[Kind, ...] = ("wants", "leaves", "turns", "turned", "either")
Part = Literal["tuples", "dev", "test"]
PARTS: tuple[Part, ...] = ("tuples", "dev", "test")
Wordings = Literal["own", "evaluation"]
WORDINGS: tuple[Wordings, ...] = ("own", "evaluation")
"""Those of :mod:`wordings`, or those that models are scored with."""
_CHOICE = 12
"""Of the most telling words of a query's passages so many are spoken of, or two for each tuple that is asked for."""
_OFTENEST = 0.1
"""Words that more of the passages have say too little."""


class Words:
    """The words of a set's passages, and how rare each is."""

    def __init__(self, data: JudgedSet) -> None:
        """Of all passages."""
        self.of = {name: words_of(text) for name, text in data.passages.items()}
        self.often = Counter(word for said in self.of.values() for word in said)

    def rarity(self, word: str) -> float:
        """The rarer in the corpus, the larger."""
        return math.log(len(self.of) / self.often[word])


class _Instruction(NamedTuple):
    """An instruction: words of which a passage has to have one, or that it must not have."""

    words: tuple[str, ...]
    has: bool

    def fits(self, said: set[str]) -> bool:
        return bool(said & {*self.words}) == self.has

    def text(self, seed: str, wordings: Wordings) -> str:
        if wordings == "own":
            return worded(self.words, self.has, seed)
        return (EITHER if len(self.words) == 2 else ONLY if self.has else WITHOUT).format(*self.words)


def divided(data: JudgedSet) -> dict[Part, list[Query]]:
    """The queries with two relevant passages or more, in three parts.

    No passage is relevant to queries of two parts: such as share one go together, by hash, those of large groups to the
    tuples. Where more than half of all hang together, as Cranfield's do, queries are divided by hash alone.
    """
    asked = [q for q in data.queries if len(relevant_of(q)) > 1]
    group = _groups(asked)
    sizes = Counter(group.values())
    if max(sizes.values(), default=0) > len(asked) / 2:
        group = {q.text: q.text for q in asked}
        sizes = Counter(group.values())
    parts: dict[Part, list[Query]] = {part: [] for part in PARTS}
    for query in sorted(asked, key=lambda q: unit_hash("order", q.text)):
        large = sizes[group[query.text]] > len(asked) / 10
        parts["tuples" if large else PARTS[int(3 * unit_hash("part", group[query.text]))]].append(query)
    return parts


def tuples_of(
    queries: list[Query],
    data: JudgedSet,
    words: Words,
    most: int,
    of_query: int = 2,
    kinds: Sequence[Kind] = KINDS,
    wordings: Wordings = "own",
) -> list[dict]:
    """Tuples of queries in turn, a few of each, until there are ``most``; kinds take turns as well."""
    relevant = {q.text: relevant_of(q) for q in queries}
    able: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for text, names in relevant.items():
        for name in names:
            for word in words.of[name]:
                able[word].append((text, name))
    everything = [(text, name) for text, names in relevant.items() for name in names]
    found: list[dict] = []
    for place, query in enumerate(queries):
        turn = [kinds[(place + number) % len(kinds)] for number in range(len(kinds))]
        made = _of_query(query, turn, relevant, data, words, able, everything, wordings, of_query)
        found += [one for one, _ in zip(made, range(of_query), strict=False)]
        if len(found) >= most:
            break
    return found[:most]


def relevant_of(query: Query) -> list[str]:
    """Ids of the passages that answer it."""
    return sorted(name for name, grade in query.judged.items() if grade > 0)


def _of_query(
    query: Query,
    kinds: Sequence[Kind],
    relevant: Mapping[str, list[str]],
    data: JudgedSet,
    words: Words,
    able: Mapping[str, list[tuple[str, str]]],
    everything: list[tuple[str, str]],
    wordings: Wordings,
    most: int,
) -> Iterator[dict]:
    for number, (x, y, own, other) in enumerate(_pairs(query, relevant[query.text], words, max(_CHOICE, 2 * most))):
        kind = kinds[number % len(kinds)]
        wanted, other_wanted = _instructions(kind, x, y, words, words.of[own] | words.of[other])
        asked = [one for word in wanted.words for one in able[word]] if wanted.has else everything
        drawn = sorted(asked, key=lambda one: unit_hash("poison", query.text, x, y, *one))
        fitting = (
            (text, name)
            for text, name in drawn
            if text != query.text
            and name not in query.judged
            and data.passages[name]
            and wanted.fits(words.of[name])
            and not {own, other} & {*relevant[text]}
        )
        poison = next(fitting, None)
        if poison is None:
            continue
        yield {
            "intent": "any",
            "query": query.text,
            "instruction": wanted.text(query.text, wordings),
            "poisoned_instruction": other_wanted.text(query.text, wordings),
            "poisoned_query": poison[0],
            "positive": data.passages[own],
            "instruction_passage": data.passages[other],
            "query_passage": data.passages[poison[1]],
            "kind": kind,
            "words": [x, y],
        }


def _pairs(query: Query, relevant: list[str], words: Words, choice: int) -> Iterator[tuple[str, str, str, str]]:
    """(word, other word, a passage with the one alone, a passage with the other alone), no word twice."""
    asked, limit = words_of(query.text), max(3, _OFTENEST * len(words.of))
    count = Counter(word for name in relevant for word in words.of[name])
    telling = [
        word for word, n in count.items() if n < len(relevant) and word not in asked and words.often[word] <= limit
    ]
    telling = sorted(telling, key=lambda word: (-min(words.often[word], 5), unit_hash("word", query.text, word)))
    chosen, used = telling[:choice], set[str]()
    for x in chosen:
        for y in chosen:
            own = next((n for n in relevant if x in words.of[n] and y not in words.of[n]), "")
            other = next((n for n in relevant if y in words.of[n] and x not in words.of[n]), "")
            if own and other and x not in used and y not in used:
                used |= {x, y}
                yield x, y, own, other


def _instructions(kind: Kind, x: str, y: str, words: Words, said: set[str]) -> tuple[_Instruction, _Instruction]:
    """That which wants the passage with x, and that which wants the one with y; both together say ``said``."""
    if kind == "either":
        elsewhere = min(words.often.keys() - said, key=lambda word: unit_hash("elsewhere", x, y, word))
        turned = unit_hash("turned", x, y) < 0.5  # else the word behind "or" would be one that says nothing
        pairs = [(elsewhere, word) if turned else (word, elsewhere) for word in (x, y)]
        return _Instruction(pairs[0], True), _Instruction(pairs[1], True)
    one = _Instruction((y,), False) if kind in ("leaves", "turned") else _Instruction((x,), True)
    other = _Instruction((x,), False) if kind in ("leaves", "turns") else _Instruction((y,), True)
    return one, other


def _groups(queries: list[Query]) -> dict[str, str]:
    """Query -> a name that it shares with those that are linked to it by relevant passages."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for query in queries:
        for passage in relevant_of(query):
            parent[root(f"passage {passage}")] = root(query.text)
    return {query.text: root(query.text) for query in queries}
