"""Paragraphs that are no running text: captions, words in figures, footnotes, tables of contents, references."""

from __future__ import annotations

import re
from collections import Counter

from pipeline_tasks.corpus.pdf.model import Paragraph
from pipeline_tasks.corpus.pdf.paragraphs import is_caption

_CAPTION_WORDS = 80
_LABEL_WORDS = 6
_FIGURE = re.compile(r"fig|photo|map|chart|plate|graph|illus|exh", re.IGNORECASE)
_LEADER = re.compile(r"(?:\.\s?){5,}\s*(?:[A-Za-z]{0,3}-?\d+|[ivxlc]+)?\s*(?:\n|$)|…{2,}|_{12,}\s*$")
_FOOTNOTE = re.compile(r"(?:\d{1,2}|[*†‡§])\s?[A-Z\"“(h]")
_REFERENCES = re.compile(
    r"(?:\d+(?:\.\d+)*\.?\s+|[IVX]+\.\s+|appendix\s+\w+[.:]?\s+)?"
    r"(?:references(?: cited)?|bibliography|works cited|literature cited|cited references|list of references)\W*",
    re.IGNORECASE,
)
_AFTER_REFERENCES = re.compile(
    r"(?:appendi(?:x|ces)|annex|attachment|acknowledge?ments?|about the authors?|glossary|index|supplementary"
    r"|tables?|figures?|contact)\b",
    re.IGNORECASE,
)
_CITATION = re.compile(
    r"\b(?:19|20)\d\d[a-z]?\b|\bdoi\b|https?:|^\[\d+\]|\bet al\b|\bISBN\b|\bpp?\. \d|^\s*\d{1,3}\.? [A-Z]"
)


def body_size(paragraphs: list[Paragraph]) -> float:
    """The size in which most characters of a document are set."""
    sizes: Counter[float] = Counter()
    for p in paragraphs:
        sizes[round(p.size * 2) / 2] += len(p.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def kinds_of(paragraphs: list[Paragraph], heights: list[float]) -> list[str]:
    """The kind of each paragraph: ``text``, or what it is set aside as.

    Args:
        paragraphs: all of a document, in reading order.
        heights: height of each page in points.
    """
    body = body_size(paragraphs)
    kinds: list[str] = []
    for before, p in zip([None, *paragraphs], paragraphs, strict=False):
        follows = before is not None and kinds[-1] == "footnote" and p.page == before.page and p.top > before.bottom - 3
        kinds.append("footnote" if follows and p.size < 0.9 * body else _kind(p, body, heights[p.page - 1]))
    _mark_figures(paragraphs, kinds, body)
    _mark_references(paragraphs, kinds, body)
    return kinds


def _kind(p: Paragraph, body: float, height: float) -> str:
    text = p.text
    if not any(c.isalnum() for c in text):
        return "figure"
    if is_caption(text) and (p.size < 0.95 * body or len(text.split()) <= _CAPTION_WORDS):
        return "caption"
    if "…" in text or "__" in text or ". ." in text or ".." in text:
        leaders = _LEADER.findall(text)
        if len(leaders) * 2 >= text.count("\n") + 1:
            return "contents"
    if p.size < 0.9 * body and p.top > 0.6 * height and _FOOTNOTE.match(text):
        return "footnote"
    return "text"


def _mark_figures(paragraphs: list[Paragraph], kinds: list[str], body: float) -> None:
    """Two or more scraps just above the caption of a figure, none of them a sentence, are words of the figure."""
    for at, (p, kind) in enumerate(zip(paragraphs, kinds, strict=True)):
        if kind != "caption" or not _FIGURE.match(p.text):
            continue
        first = at
        while first > 0 and _is_label(paragraphs[first - 1], p.page, body) and kinds[first - 1] == "text":
            first -= 1
        if at - first >= 2:
            kinds[first:at] = ["figure"] * (at - first)


def _is_label(p: Paragraph, page: int, body: float) -> bool:
    return (
        p.page == page
        and p.size <= 1.05 * body
        and not p.item
        and len(p.text.split()) <= _LABEL_WORDS
        and p.text[-1] not in ".:;?!"
    )


def _mark_references(paragraphs: list[Paragraph], kinds: list[str], body: float) -> None:
    """From the heading of a list of references to the next heading that is none of it, where most entries cite."""
    for at, p in enumerate(paragraphs):
        if kinds[at] != "text" or len(p.text) > 60 or not _REFERENCES.fullmatch(p.text.replace("\n", " ")):
            continue
        end = at + 1
        while end < len(paragraphs) and not _ends_references(paragraphs[end], p, body):
            end += 1
        entries = [i for i in range(at + 1, end) if kinds[i] in ("text", "footnote")]
        cited = sum(len(paragraphs[i].text) for i in entries if _CITATION.search(paragraphs[i].text))
        if entries and cited >= 0.6 * sum(len(paragraphs[i].text) for i in entries):
            for i in (at, *entries):
                kinds[i] = "references"


def _ends_references(p: Paragraph, heading: Paragraph, body: float) -> bool:
    if len(p.text) > 80 or p.page < heading.page:
        return False
    stands_out = p.size > 1.12 * body or (p.bold and p.size >= 0.95 * body)
    like_heading = p.size >= 0.97 * heading.size and p.bold == heading.bold and stands_out
    return bool(like_heading or (_AFTER_REFERENCES.match(p.text) and (stands_out or p.text.isupper())))
