"""What the parts of extraction hand to one another: segments, lines, paragraphs, asides, the document or a reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

ASCENT, DESCENT = 0.85, 0.25
"""Height of a segment above and below its baseline, in sizes of its font."""


class Segment(NamedTuple):
    """Text on one baseline without a wide gap, as an engine gives it.

    Units: points; the origin is the top left corner of the page, turned so that the text reads from left to right.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    text: str
    face: str = ""


@dataclass(frozen=True)
class PageText:
    """One page: its size in points and its segments in the order in which the PDF draws them."""

    width: float
    height: float
    segments: list[Segment]


@dataclass(frozen=True)
class Aside:
    """Text that is no running text, kept with its 1-based page.

    ``kind`` is running, table, caption, figure, footnote, contents or references.
    """

    kind: str
    page: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Lines that belong together, still apart: ``text`` holds a line feed wherever a line ended."""

    page: int
    text: str
    size: float
    bold: bool
    top: float
    bottom: float
    item: bool = False


@dataclass(frozen=True)
class PdfText:
    """Running text of a document and what was set aside from it; ``n_off_page`` segments were left out unseen."""

    title: str
    text: str
    page_starts: list[int]
    n_pages: int
    n_words: int
    n_unreadable_pages: int = 0
    n_off_page: int = 0
    language: str = ""
    date: str = ""
    created: str = ""
    modified: str = ""
    asides: list[Aside] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """The fields as columns of a row."""
        return asdict(self)


@dataclass(frozen=True)
class Unreadable:
    """Why a document has no text."""

    reason: str
    detail: str = ""


@dataclass(eq=False)
class CannotRead(Exception):
    """Raised inside extraction where no text can come of a document; ends as :class:`Unreadable`."""

    reason: str
    detail: str = ""
