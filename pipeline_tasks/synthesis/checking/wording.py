"""What the words of a text are: stems, runs, numbers, and of which language they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"(?<![\w.])\.\d+|\d+(?:\.\d+)*")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)[,\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_FIGURE = re.compile(r"(?<![\w.,-])(?<![A-Z]{2} )\d[\d.,]*(?![\w-])")
_FILLER = frozenset(
    """about above after again against along among around because before being below between could during every from
    have having into more most much only other over passage people same should some such than that their them then there
    these they this those through under until very want wants what when where which while will with within without would
    your know""".split()
)
_COUNTED = {
    word: str(number)
    for number, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
} | {"both": "2", "half": "2", "hundred": "100", "thousand": "1000", "first": "1", "second": "2", "third": "3"}
_ENGLISH = frozenset(
    """the and to for with that are be by from which who what when where how why should their they you your this these
    it its not have has can will must of is was were if than after before does did would could may""".split()
)
_SMALL = frozenset("in on an or as at about into any all we our".split())
"""More of them, which other languages have, too."""
_LONG = 15
_OTHERS = frozenset(
    """el los las que y en del por para con una su sus se es al como más les des et le du est pour dans une sur qui aux
    sont der die das und ist nicht für mit den dem ein eine zu auf bei os da na em uma não ao il che di per non sono gli
    della het een van zijn niet voor met op är och att som på det de la un""".split()
)
"""The commonest words of Spanish, French, German, Portuguese, Italian, Dutch and Swedish that are no English ones."""
_REMEMBERED = 64  # texts: many measures of a draft are of the same few
_LAST_LATIN = "ɏ"


@lru_cache(_REMEMBERED)
def words_of(text: str) -> tuple[str, ...]:
    """The words of ``text`` in order, in small letters."""
    return tuple(word.lower() for word in _WORD.findall(text))


def content_of(text: str) -> set[str]:
    """What ``text`` is about: its longer words, by their first five letters so that endings do not matter."""
    return {w[:5] for w in words_of(text) if (len(w) >= 4 or w.isdigit()) and w not in _FILLER}


def digits_of(text: str) -> set[str]:
    """The numbers that ``text`` has in digits, 1,000 as one of them."""
    return set(_DIGITS.findall(_BETWEEN_THOUSANDS.sub("", text)))


def figures_of(text: str) -> set[str]:
    """The numbers that count something: digits that are no part of a name such as "ICS 200" or "IS-700"."""
    found = _FIGURE.findall(_BETWEEN_THOUSANDS.sub("", text))
    return {number for figure in found for number in _values(figure)}


def numbers_of(text: str) -> set[str]:
    """The numbers that ``text`` names in digits, without zeros that say nothing, or in words."""
    named = {_COUNTED[word] for word in words_of(text) if word in _COUNTED}
    return set(_values(_BETWEEN_THOUSANDS.sub("", text))) | named


def _values(text: str) -> Iterator[str]:
    """Numbers without zeros that say nothing: 0.50 is 0.5; parts of a date or section such as 5.1.2 one by one."""
    for found in _NUMBER.findall(text):
        whole, *parts = found.split(".")
        if len(parts) == 1:
            fraction = parts[0].rstrip("0")
            yield (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
        else:
            yield from (part.lstrip("0") or "0" for part in (whole, *parts))


def grams_of(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    """Runs of ``n`` words, in their order."""
    return zip(*(words[i:] for i in range(n)), strict=False)


def longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words in a row the two have in common, at most."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        n = (least + most + 1) // 2
        if set(grams_of(one, n)).isdisjoint(grams_of(other, n)):
            most = n - 1
        else:
            least = n
    return least


@lru_cache(_REMEMBERED)
def english_share(text: str) -> float:
    """Of the small words by which languages are told apart, the share that is English; 1 where one at most is not.

    One alone tells nothing: ``per`` is Italian and English. A text of which more than a fifth is not in Latin letters
    has no English, nor has a long one without any small word of it.
    """
    if not text.isascii():
        letters = [c for c in text if c.isalpha()]
        if sum(c <= _LAST_LATIN for c in letters) < 0.8 * len(letters):
            return 0.0
    words = words_of(text)
    if len(words) >= _LONG and _ENGLISH.isdisjoint(words) and _SMALL.isdisjoint(words):
        return 0.0
    english, other = sum(word in _ENGLISH for word in words), sum(word in _OTHERS for word in words)
    return english / (english + other) if other > 1 else 1.0
