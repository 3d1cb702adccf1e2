"""A small typesetter: blocks of text on PDF pages, in reading order, with no word ever hyphenated."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pipeline_tasks.demo.blocks import Block, parse_blocks
from pipeline_tasks.demo.sample import SampleDocument

if TYPE_CHECKING:
    import pymupdf

_WIDTH, _HEIGHT, _MARGIN, _GUTTER = 612.0, 792.0, 66.0, 24.0
_BODY, _BOLD, _HEAD = "tiro", "tibo", "hebo"


def typeset(document: SampleDocument) -> "pymupdf.Document":
    """The document on Letter pages: one column or two, or tables under running headers, as it asks."""
    running = document.layout == "tables"
    flow = _Flow(columns=2 if document.layout == "two_column" else 1)
    flow.spanning(document.title, _HEAD, 17)
    flow.spanning(f"Issued {document.date:%d} {document.date:%B} {document.date:%Y}", _BODY, 10)
    for block in parse_blocks(document.body):
        _PLACERS[block.kind](flow, block)
    return flow.finish(running=document.title if running else None)


@dataclass(frozen=True)
class _Text:
    x: float
    y: float
    text: str
    font: str
    size: float

    def draw(self, shape: "pymupdf.Shape") -> None:
        shape.insert_text((self.x, self.y), self.text, fontname=self.font, fontsize=self.size)


@dataclass(frozen=True)
class _Rule:
    x: float
    y: float
    width: float

    def draw(self, shape: "pymupdf.Shape") -> None:
        shape.draw_line((self.x, self.y), (self.x + self.width, self.y))
        shape.finish(width=0.4)


class _Flow:
    """Places lines from top to bottom through the columns of as many pages as it takes."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.width = (_WIDTH - 2 * _MARGIN - (columns - 1) * _GUTTER) / columns
        self._pages: list[list[_Text | _Rule]] = []
        self._new_page()

    def _new_page(self) -> None:
        self._pages.append([])
        self._column, self._top, self._y = 0, _MARGIN, _MARGIN

    def spanning(self, text: str, font: str, size: float) -> None:
        """Lines over the full width, above the columns of the first page."""
        for line in self.broken(text, font, size, _WIDTH - 2 * _MARGIN):
            self.write(line, font, size)
        self._y += 6
        self._top = self._y

    def need(self, height: float) -> None:
        """Go on in the next column, or on the next page, unless ``height`` points are left here."""
        if self._y + height <= _HEIGHT - _MARGIN:
            return
        if self._column + 1 < self._columns:
            self._column, self._y = self._column + 1, self._top
        else:
            self._new_page()

    def gap(self, height: float) -> None:
        """Leave ``height`` points blank, but never at the head of a column."""
        if self._y > self._top:
            self._y += height

    def write(self, text: str, font: str, size: float, indent: float = 0) -> None:
        """One line of text at the current place."""
        self.need(size * 1.25)
        self._y += size * 1.25
        left = _MARGIN + self._column * (self.width + _GUTTER) + indent
        self._pages[-1].append(_Text(left, self._y - size * 0.25, text, font, size))

    def row(self, cells: tuple[str, ...], font: str, size: float) -> None:
        """One table row: equal columns, every cell broken to its own lines."""
        each = self.width / len(cells)
        broken = [self.broken(cell, font, size, each - 8) for cell in cells]
        self.need(size * 1.25 * max(map(len, broken)) + 4)
        top = bottom = self._y
        for place, lines in enumerate(broken):
            self._y = top
            for line in lines:
                self.write(line, font, size, indent=place * each)
            bottom = max(bottom, self._y)
        self._pages[-1].append(_Rule(_MARGIN, bottom + 2, self.width))
        self._y = bottom + 4

    def broken(self, text: str, font: str, size: float, width: float) -> list[str]:
        """The text as lines of at most ``width`` points, broken at spaces only."""
        space = _word_width(" ", font, size)
        lines: list[list[str]] = []
        left = 0.0
        for word in text.split():
            needed = _word_width(word, font, size)
            if lines and space + needed <= left:
                lines[-1].append(word)
                left -= space + needed
            else:
                lines.append([word])
                left = width - needed
        return [" ".join(words) for words in lines]

    def finish(self, running: str | None) -> "pymupdf.Document":
        """The document; with ``running`` given, as header of every page above page numbers at the foot."""
        import pymupdf

        pdf = pymupdf.open()
        for number, marks in enumerate(self._pages, start=1):
            if running:
                footer = f"Page {number} of {len(self._pages)}"
                marks.insert(0, _Text(_MARGIN, 40, running, _BODY, 9))
                marks.append(_Text(_WIDTH / 2 - 25, _HEIGHT - 36, footer, _BODY, 9))
            shape = pdf.new_page(width=_WIDTH, height=_HEIGHT).new_shape()
            for mark in marks:
                mark.draw(shape)
            shape.commit()
        return pdf


@lru_cache(maxsize=1 << 14)
def _word_width(word: str, font: str, size: float) -> float:
    import pymupdf

    return pymupdf.get_text_length(word, fontname=font, fontsize=size)


def _place_heading(flow: _Flow, block: Block) -> None:
    flow.need(60)
    flow.gap(9)
    for line in flow.broken(block.text, _HEAD, 12.5, flow.width):
        flow.write(line, _HEAD, 12.5)
    flow.gap(3)


def _place_paragraph(flow: _Flow, block: Block) -> None:
    for line in flow.broken(block.text, _BODY, 11, flow.width):
        flow.write(line, _BODY, 11)
    flow.gap(7)


def _place_item(flow: _Flow, block: Block) -> None:
    first, *rest = flow.broken(f"{block.marker} {block.text}", _BODY, 11, flow.width - 24)
    flow.write(first, _BODY, 11, indent=12)
    for line in rest:
        flow.write(line, _BODY, 11, indent=24)
    flow.gap(3)


def _place_row(flow: _Flow, block: Block, font: str) -> None:
    flow.row(block.cells, font, 10)


_PLACERS: dict[str, Callable[[_Flow, Block], None]] = {
    "heading": _place_heading,
    "paragraph": _place_paragraph,
    "item": _place_item,
    "header_row": partial(_place_row, font=_BOLD),
    "row": partial(_place_row, font=_BODY),
}
