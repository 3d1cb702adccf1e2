"""Where quoted sentences stand in a corpus, however it is cut: the passages that hold most of a quote's words in a row.

A PDF's reader may break lines and spaces as it likes, and a cut may go through the quote; words in a row survive both.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

_WORD = re.compile(r"\w+")
_IN_A_ROW = 4
_SHARE = 0.5
_LEAST = 8
"""Words in a row: fewer are a turn of phrase that another document may have, too."""


class Quotes:
    """Quotes to be looked for."""

    def __init__(self, quotes: Iterable[str]) -> None:
        self._wanted: list[float] = []
        self._known: defaultdict[int, dict[tuple[str, ...], list[int]]] = defaultdict(dict)
        for number, quote in enumerate(quotes):
            words = _words(quote)
            length = min(_IN_A_ROW, len(words))
            rows = set(_rows(words, length))
            self._wanted.append(min(len(rows), max(_SHARE * len(rows), _LEAST - _IN_A_ROW + 1)))
            for row in rows:
                self._known[length].setdefault(row, []).append(number)

    def found_in(self, text: str) -> list[int]:
        """Numbers, ascending, of the quotes of which ``text`` has half, and eight words or all of a shorter one."""
        words = _words(text)
        hits: Counter[int] = Counter()
        for length, known in self._known.items():
            for row in set(_rows(words, length)).intersection(known):
                hits.update(known[row])
        return sorted(number for number, n in hits.items() if n >= self._wanted[number])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _rows(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Every ``length`` words in a row; none for no words."""
    return zip(*(words[start:] for start in range(length)), strict=False) if length else iter(())
