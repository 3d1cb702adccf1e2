"""PDFs with planted truth: what should be read in which order, and what should not be in the text at all. Seeded."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pymupdf

_WIDTH, _HEIGHT, _MARGIN, _GUTTER = 612.0, 792.0, 60.0, 18.0
_SIZE, _STEP = 10.0, 12.5
_WORDS = (
    "river levee water crest gauge storm relief shelter boat rescue sandbag bridge culvert pump evacuation route siren"
    " radio family plan county road power school office supply medical animal notice official before during after"
    " should listen move check report return inspect protect the a of to and in for with near under every local"
).split()


@dataclass
class Planted:
    """One document and what is true of it.

    Attributes:
        content: the PDF's bytes.
        n_pages: its pages.
        order: words that each name a line of running text, in reading order.
        joined: words that are broken at a line's end in the PDF.
        running: what repeats at the edges of pages; a page number is ``folio<n>``.
        cells: words that stand in tables only.
        notes: words that stand in captions or references only.
    """

    content: bytes = b""
    n_pages: int = 0
    order: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plant(n_pages: int, seed: int) -> Planted:
    """A document of about ``n_pages`` dense pages: one or two columns, tables, captions, running lines, references."""
    return _Author(random.Random(seed), seed).write(n_pages)


class _Author:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self._rng, self._id = rng, f"d{seed}"
        self._found = Planted()
        self._line = self._cell = 0
        self._counts = rng.random() < 0.5

    def write(self, n_pages: int) -> Planted:
        found, rng = self._found, self._rng
        across = rng.random() < 0.3
        with pymupdf.open() as document:
            for number in range(1, n_pages + 1):
                page = document.new_page(width=_WIDTH, height=_HEIGHT)
                self._edges(page, number, n_pages)
                columns = rng.choice([1, 2, 2, 3])
                y = self._opening(page, number)
                if rng.random() < 0.4:
                    y = self._table(page, y)
                self._columns(page, columns, y, across)
            if n_pages > 2:
                self._references(document.new_page(width=_WIDTH, height=_HEIGHT), n_pages + 1)
            found.n_pages = document.page_count
            found.content = document.tobytes(deflate=True, no_new_id=True)
        return found

    def _text(self, page: pymupdf.Page, x: float, y: float, text: str, size: float = _SIZE, bold: bool = False) -> None:
        page.insert_text((x, y), text, fontsize=size, fontname="hebo" if bold else "helv")

    def _edges(self, page: pymupdf.Page, number: int, n_pages: int) -> None:
        if n_pages < 2:
            return
        head = f"running{self._id} {'emergency handbook' if number % 2 else 'county of weldon'}"
        self._text(page, _MARGIN if number % 2 else 380, 36, head, 8)
        foot = f"folio{self._id} {number}" + f" of {n_pages}" * self._counts
        self._text(page, 280, 764, foot, 8)
        self._found.running += [f"running{self._id}", f"folio{self._id}"]

    def _opening(self, page: pymupdf.Page, number: int) -> float:
        self._text(page, _MARGIN, 84, f"{self._tag()} Section {number} of the plan", 15, bold=True)
        return 108.0

    def _tag(self) -> str:
        self._line += 1
        self._found.order.append(f"{self._id}x{self._line}")
        return self._found.order[-1]

    def _sentence(self, width: float, last: bool) -> str:
        """A line that fills ``width`` nearly, its first word unique; sometimes its last is broken."""
        text = self._tag()
        while pymupdf.get_text_length(longer := f"{text} {self._rng.choice(_WORDS)}", fontsize=_SIZE) < width - 8:
            text = longer
        return text + ("." if last else "")

    def _columns(self, page: pymupdf.Page, n: int, top: float, across: bool) -> None:
        width = (_WIDTH - 2 * _MARGIN - (n - 1) * _GUTTER) / n
        drawn: list[list[tuple[float, float, str]]] = []
        caption_at = self._rng.randrange(2 * n)
        for column in range(n):
            x, y, lines = _MARGIN + column * (width + _GUTTER), top, []
            broken = ""
            while y < 716:
                last = self._rng.random() < 0.15
                breaks = not last and not broken and self._rng.random() < 0.08
                text = self._sentence(width - (30 if broken else 34 if breaks else 0), last)
                if broken:
                    self._found.order[-1], text = "", f"{broken} {text.split(' ', 1)[1]}"
                    broken = ""
                elif breaks:
                    self._line += 1
                    word = f"evacu{self._spelled(self._line)}ation"
                    self._found.joined.append(word)
                    text, broken = f"{text} {word[:5]}-", word[5:]
                lines.append((x, y, text))
                y += _STEP * (1.8 if last else 1)
            if broken:
                lines.append((x, y, f"{broken} {self._sentence(width - 60, True)}"))
                self._found.order[-1], lines[-1] = "", (x, y, broken)
            drawn.append(lines)
            if caption_at == column and y < 740 and n < 3:
                self._found.notes.append(f"note{self._id}{self._line}")
                lines.append((x, 742, f"Figure {self._line}. {self._found.notes[-1]} of the valley"))
        self._found.order = [word for word in self._found.order if word]
        rows = [lines[i] for i in range(max(map(len, drawn))) for lines in drawn if i < len(lines)]
        for x, y, text in rows if across else [line for lines in drawn for line in lines]:
            self._text(page, x, y, text)

    def _spelled(self, number: int) -> str:
        return "".join(chr(97 + int(digit)) for digit in str(number))

    def _table(self, page: pymupdf.Page, y: float) -> float:
        n_columns = self._rng.randint(3, 6)
        width = (_WIDTH - 2 * _MARGIN) / n_columns
        self._found.notes.append(f"note{self._id}t{self._line}")
        self._text(page, _MARGIN, y, f"Table {self._line + 1}. {self._found.notes[-1]} by gauge")
        y += 2 * _STEP
        for _ in range(self._rng.randint(4, 12)):
            for column in range(n_columns):
                self._cell += 1
                word = f"{self._id}c{self._cell}"
                self._found.cells.append(word)
                tail = self._rng.choice(["", " 4.2", " ft", " low"])
                self._text(page, _MARGIN + column * width, y, word + tail, 9)
            y += _STEP * 1.2
        return y + 2 * _STEP

    def _references(self, page: pymupdf.Page, number: int) -> None:
        self._edges(page, number, number)
        self._text(page, _MARGIN, 90, "References", 15, bold=True)
        for i in range(1, 16):
            word = f"note{self._id}r{i}"
            self._found.notes.append(word)
            self._text(
                page,
                _MARGIN,
                90 + 30 * i,
                f"[{i}] Gage, A. ({1990 + i}). {word} of the lower valley. Vol. {i}.",
            )
