"""Characters and broken words: what an engine's text needs before a person would read it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cached_property

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufff0-\uffff]")
_PARTS_WORDS = re.compile(r"[\x0b\x0c\x1c-\x1f\x85]")
_SYMBOL_BULLET = re.compile("[\uf06e\uf06c\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0e8\uf0fc]")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
SOFT_HYPHEN = "\u00ad"
_WITHIN_A_LINE = re.compile(f"{SOFT_HYPHEN}(?=[^\n])")
_CJK = (
    "[\u3001-\u30ff\u3105-\u312f\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\uffe0-\uffe6"
    "\U00020000-\U0003ffff]"
)
"""Chinese and Japanese letters and full-width marks; no blank of the text parts them."""
_WIDE = "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
"""Full-width digits and Latin letters; a blank parts two words of them."""
_SOUTH_EAST = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
"""Thai, Lao, Myanmar and Khmer; a blank parts clauses and stands before the line feed."""
_NO_BLANK = re.compile(
    f"{SOFT_HYPHEN}\n|(?<={_CJK})(?<!{_WIDE}) *\n *(?={_CJK})|(?<={_WIDE}) *\n *(?={_CJK})(?!{_WIDE})"
    f"|(?<={_SOUTH_EAST})\n(?={_SOUTH_EAST})"
)
_HYPHENS = ("-", SOFT_HYPHEN, "\u2010")
_TAIL = re.compile(r"([^\W_]+)[-\u2010]$")
_HEAD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_COMPOUND_HEADS = frozenset(
    "all cross double ever ex far first five four full half high ill in large long low mid multi near non off on post"
    " pre second self semi short single small so state third three two well wide".split()
)


class Hyphens:
    """Joins words broken at a line's end, as the rest of the document writes them.

    ``evac-/uation`` is one word. A hyphen stays where the document has the compound in the middle of a line, where a
    digit or a capital stands beside it, in a web address, or where the first half is one that compounds begin with
    (``well-known``), the second is a word by itself and the document nowhere has both in one.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)

    @cached_property
    def _words(self) -> set[str]:
        """Words of the document that stand whole within a line."""
        return {word for text in self._texts for word in _WORD.findall(_without_broken(text).lower())}

    def join(self, text: str) -> str:
        """``text`` with its lines joined into one; a soft hyphen at its end stays for what comes next."""
        first, *lines = whole_words(text).split("\n")
        joined = [first]
        for line in lines:
            if joined[-1].endswith(_HYPHENS) and (bridged := self._bridged(joined[-1], line)):
                joined[-1] = bridged
            else:
                joined.append(line)
        return " ".join(" ".join(joined).split()) if lines or "  " in first else first

    def _bridged(self, before: str, line: str) -> str:
        """The two lines in one without a gap; empty where no word is broken."""
        tail, head = _TAIL.search(before), _HEAD.match(line)
        if tail is None or head is None:
            return ""
        first, second = tail.group(1).lower(), head.group()
        whole, compound = f"{first}{second.lower()}", f"{first}-{second.lower()}"
        address = "/" in before.rpartition(" ")[2]
        if address or "-" in second or not (first[-1].isalpha() and second[0].islower()):
            return f"{before[:-1]}-{line}"
        if whole in self._words:
            return before[:-1] + line
        known_half = first in _COMPOUND_HEADS and second in self._words
        keeps = compound in self._words or known_half
        return f"{before[:-1]}-{line}" if keeps else before[:-1] + line


def _without_broken(text: str) -> str:
    lines = text.split("\n")
    for i in range(len(lines) - 1):
        if lines[i].endswith(_HYPHENS):
            lines[i] = lines[i].rpartition(" ")[0]
            lines[i + 1] = lines[i + 1].partition(" ")[2]
    return "\n".join(lines)


def whole_words(text: str) -> str:
    """Text without the ends of lines that are no blank: after a soft hyphen, and in scripts without blanks."""
    return _NO_BLANK.sub("", text)


def clean(text: str) -> str:
    """Text without control characters, invisible marks and ligatures, accents in their letters.

    Lines stay apart, and a soft hyphen stays at the end of a line or of the text, where it breaks a word.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROL.sub("", _PARTS_WORDS.sub(" ", text.replace("\r", "\n")))
    if _LIGATURE.search(text):
        text = _LIGATURE.sub(lambda m: unicodedata.normalize("NFKC", m.group()), text)
    text = _SYMBOL_BULLET.sub("•", text)
    return unicodedata.normalize("NFC", _WITHIN_A_LINE.sub("", text).replace("\u00a0", " "))
