"""Paragraphs of all pages to one running text that knows where each page begins."""

from __future__ import annotations

import re
import unicodedata

from pipeline_tasks.corpus.pdf.cleaning import SOFT_HYPHEN, Hyphens, whole_words
from pipeline_tasks.corpus.pdf.model import Paragraph

_OPEN_END = re.compile(r"[\w,;’'\"”)\]&/–—，、；）،؛-]$")
_HYPHEN_END = re.compile(r"[^\W\d_][-\u00ad\u2010]$")


def run_together(paragraphs: list[Paragraph], n_pages: int, hyphens: Hyphens) -> tuple[str, list[int]]:
    """The running text and the offset of each page's first character.

    Paragraphs are a blank line apart, items of a list a line. A sentence that goes on in the next column or on the
    next page is not cut: it goes on after a space. A page without text begins where the next one does.
    """
    pieces: list[str] = []
    firsts: dict[int, int] = {}
    at = 0
    for before, p in zip([None, *paragraphs], paragraphs, strict=False):
        text = hyphens.join(p.text)
        if before is not None:
            joint = _joint(pieces[-1], text, before, p)
            last = pieces[-1] if joint or _keeps_hyphen(pieces[-1], text, hyphens) else pieces[-1][:-1]
            last = last.removesuffix(SOFT_HYPHEN)
            at += len(last) - len(pieces[-1]) + len(joint)
            pieces[-1:] = [last, joint]
        firsts.setdefault(p.page, at)
        pieces.append(text)
        at += len(text)
    whole = "".join(pieces).removesuffix(SOFT_HYPHEN)
    starts, following = [], len(whole)
    for page in range(n_pages, 0, -1):
        following = firsts.get(page, following)
        starts.append(following)
    return whole, starts[::-1]


def _keeps_hyphen(last: str, text: str, hyphens: Hyphens) -> bool:
    head, tail = last.rsplit(None, 1)[-1], text.split(None, 1)[0]
    return hyphens.join(f"{head}\n{tail}").startswith(head)


def _joint(last: str, text: str, before: Paragraph, p: Paragraph) -> str:
    same_kind = abs(before.size - p.size) < 1.0 and before.bold == p.bold
    moved = before.page != p.page or p.top < before.bottom - 2
    if same_kind and moved and not p.item and _may_go_on(text[0]):
        if _HYPHEN_END.search(last):
            return ""
        if len(last) > 40 and (_OPEN_END.search(last) or unicodedata.category(last[-1])[0] == "M"):
            edge = f"{last[-1]}\n{text[0]}"
            return " " if whole_words(edge) == edge else ""
    return "\n" if before.item and p.item and not moved else "\n\n"


def _may_go_on(first: str) -> bool:
    """Whether a sentence may go on with this character: a letter that is no capital, of scripts with or without."""
    return first == "(" or (first.isalpha() and not first.isupper() and not first.istitle())
