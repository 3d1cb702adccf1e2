"""Characters and broken words: what an engine's text needs before a person would read it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff0-\uffff]")
_SYMBOL_BULLET = re.compile("[\uf06e\uf06c\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0e8\uf0fc]")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_SOFT_HYPHEN = re.compile("\u00ad(?!\n)")
_BROKEN = re.compile(r"([^\W_]+(?:-[^\W_]+)*)([-\u00ad\u2010])\n([^\W_]+(?:-[^\W_]+)*)")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_COMPOUND_HEADS = frozenset(
    "all cross double ever ex far first full half high ill in large long low mid multi near non off on post pre second self semi short single"
    " small third so state two three four five six well wide".split()
)


class Hyphens:
    """Joins words broken at a line's end, as the rest of the document writes them.

    ``evac-/uation`` is one word. A hyphen stays where the document has the compound in the middle of a line, where a
    digit or a capital stands beside it, or where the first half is one that compounds begin with (``well-known``),
    the second is a word by itself and the document nowhere has both in one.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        texts = list(texts)
        broken = any(_BROKEN.search(text) for text in texts)
        whole = (_BROKEN.sub(" ", text).lower() for text in texts) if broken else ()
        self._words = {word for text in whole for word in _WORD.findall(text)}

    def join(self, text: str) -> str:
        """``text`` with its lines joined into one."""
        if "\n" in text:
            text = " ".join(_BROKEN.sub(self._joined, text).split())
        return text

    def _joined(self, match: re.Match[str]) -> str:
        first, mark, second = match.groups()
        if mark == "\u00ad":
            return first + second
        head = first.rsplit("-", 1)[-1]
        whole, compound = f"{head}{second}".lower(), f"{head}-{second}".lower()
        if "-" in second or not (head[-1].isalpha() and second[0].islower()):
            return f"{first}-{second}"
        if whole in self._words:
            return first + second
        known_half = head.lower() in _COMPOUND_HEADS and second.lower() in self._words
        keeps = compound in self._words or known_half
        return f"{first}-{second}" if keeps else first + second


def clean(text: str) -> str:
    """Text without control characters, invisible marks and ligatures; lines stay apart."""
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROL.sub("", text.replace("\r", "\n"))
    if _LIGATURE.search(text):
        text = _LIGATURE.sub(lambda m: unicodedata.normalize("NFKC", m.group()), text)
    text = _SYMBOL_BULLET.sub("•", text)
    return _SOFT_HYPHEN.sub("", text).replace("\u00a0", " ")
