"""What a query about a passage should be about: one telling sentence, and one thing that it names.

A small model writes about what it read last, and continues what was begun for it. With a sentence of the passage
repeated at the end, and the answer begun with words from that sentence, its queries are about the passage; without,
most are about nothing in particular. A hash of the passage's id chooses, so that passages differ and re-runs do not.
"""

from __future__ import annotations

import re

from pipeline_tasks.core.ids import seed_of

SENTENCE_WORDS = (7, 40)
CANDIDATES = 3

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_TELLING = re.compile(r"\d[\d.,%]*|\w{7,}")
_NO_NOUN = """
    many few several both a an the this that these those each every all any some no not of in for with by on
    at from near to into and or but nor if when where while than then so as is are was were be been being has
    have had do does did can cannot could may might must shall should will would only also again before after
    because about up down out off over under it its they them their there he she his her you your we our who
    which what how why very more most less least such other same
"""
_WORD = rf"(?!(?:{'|'.join(_NO_NOUN.split())})\b)[A-Za-z][\w-]+"
_BEFORE = r"\b(the|a|an|this|each|every|of|in|for|with|by|on|at|from|near)"
_AFTER = (
    r"(?=[,.;:)]|\s(?:and|or|is|are|was|were|has|have|can|cannot|could|may|might|must|should|will|would|do|does)\b)"
)
_THING = re.compile(rf"{_BEFORE}\s+({_WORD}(?:\s(?:{_WORD}|\d+)){{0,3}}){_AFTER}", re.IGNORECASE)
_LOOSE_THING = re.compile(rf"{_BEFORE}\s+({_WORD}(?:\s{_WORD})?)", re.IGNORECASE)
_DETERMINERS = frozenset({"the", "a", "an", "this", "each", "every"})
_VERB_AFTER_NOUN = re.compile(r"(?<=\w)\s\w+ed$")


def focus_of(passage: str, key: str) -> str:
    """One telling sentence of ``passage``: of those with the most long words and numbers, the one ``key`` draws."""
    low, high = SENTENCE_WORDS
    sentences = [s for s in _SENTENCE.split(passage) if low <= len(s.split()) <= high]
    if not sentences:
        return " ".join(passage.split()[:high])
    telling = sorted(sentences, key=lambda s: (-len(set(_TELLING.findall(s))), s))[:CANDIDATES]
    return telling[seed_of("focus", key) % len(telling)]


def subject_of(sentence: str, key: str) -> str:
    """A thing that ``sentence`` names, with its article, such as "the gauge"; empty where none is found."""
    found = _THING.findall(sentence) or _LOOSE_THING.findall(sentence)
    things = {_thing(before.lower(), words) for before, words in found if len(words) >= 5}
    longest = sorted(things, key=lambda thing: (-len(thing), thing))[:CANDIDATES]
    return longest[seed_of("subject", key) % len(longest)] if longest else ""


def _thing(before: str, words: str) -> str:
    noun = _VERB_AFTER_NOUN.sub("", words)
    return f"{before} {noun}" if before in _DETERMINERS else noun
