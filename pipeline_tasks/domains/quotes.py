"""Where quoted sentences stand in a corpus, however it is cut: the passages that hold most of a quote's words in a row.

A PDF's reader may break lines and spaces as it likes, and a cut may go through the quote; words in a row survive both.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"\w+")
_ALONE = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = re.compile(f"[{_ALONE}]")
"""Kana and ideographs, which no blanks part, are a word each."""
_WORD_OF_ANY_SCRIPT = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])\w)+")
_IN_A_ROW = 4
_SHARE = 0.5
_STRETCH = 2
"""A quote stands among so many times its own words at most."""
_LEAST = 8
"""Words in a row: fewer are a turn of phrase that another document may have, too."""


class Quotes:
    """Quotes to be looked for."""

    def __init__(self, quotes: Iterable[str]) -> None:
        self._wanted: list[float] = []
        self._spans: list[int] = []
        self._known: defaultdict[int, dict[tuple[str, ...], list[int]]] = defaultdict(dict)
        for number, quote in enumerate(quotes):
            words = _words(quote)
            length = min(_IN_A_ROW, len(words))
            rows = set(_rows(words, length))
            self._wanted.append(min(len(rows), max(_SHARE * len(rows), _LEAST - _IN_A_ROW + 1)))
            self._spans.append(_STRETCH * len(words))
            for row in rows:
                self._known[length].setdefault(row, []).append(number)

    def found_in(self, text: str) -> list[int]:
        """Numbers, ascending, of the quotes of which ``text`` has half, and eight words or all of a shorter one.

        They stand in one place, among no more words than twice those of the quote: a footnote's number or the line at a
        page's foot may part them, and words from all over a document are no quote.
        """
        words = _words(text)
        hits: defaultdict[int, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
        for length, known in self._known.items():
            for place, row in enumerate(_rows(words, length)):
                for number in known.get(row, ()):
                    hits[number].append((place, row))
        return sorted(number for number, found in hits.items() if self._is_quoted(number, found))

    def _is_quoted(self, number: int, found: Sequence[tuple[int, tuple[str, ...]]]) -> bool:
        """Whether enough different rows of a quote stand in one stretch of the text."""
        if len({row for _, row in found}) < self._wanted[number]:
            return False
        within: Counter[tuple[str, ...]] = Counter()
        first = 0
        for place, row in found:
            within[row] += 1
            while place - found[first][0] > self._spans[number]:
                within[found[first][1]] -= 1
                first += 1
            if sum(n > 0 for n in within.values()) >= self._wanted[number]:
                return True
        return False


def stands_in(quote: str, text: str) -> bool:
    """Whether ``text`` has all words of ``quote`` in a row."""
    return f" {' '.join(_words(quote))} " in f" {' '.join(_words(text))} "


def _words(text: str) -> list[str]:
    if text.isascii():
        return _WORD.findall(text.lower())
    return _WORD_OF_ANY_SCRIPT.findall(unicodedata.normalize("NFC", text).lower())


def _rows(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Every ``length`` words in a row; none for no words."""
    return zip(*(words[start:] for start in range(length)), strict=False) if length else iter(())
