"""One PDF's bytes to running text, by PyMuPDF. Columns are read in order, repeated page headers and footers dropped."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

PAGE_BREAK = "\n\n"
_EDGE_SHARE = 0.12
_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_HYPHEN = re.compile(r"([^\W\d_])[-\u00ad]\n([^\W\d_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b\ufeff]")


@dataclass(frozen=True)
class PdfText:
    """Running text of a document."""

    title: str
    text: str
    page_starts: list[int]
    n_pages: int
    n_words: int

    def columns(self) -> dict[str, Any]:
        """The fields as columns of a row."""
        return asdict(self)


@dataclass(frozen=True)
class Unreadable:
    """Why a document has no text."""

    reason: str
    detail: str = ""


def read_pdf(content: bytes) -> PdfText | Unreadable:
    """Text of the PDF in ``content``; hostile input gives a reason, never an exception of ours."""
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    try:
        document = pymupdf.open(stream=content, filetype="pdf")
    except (pymupdf.FileDataError, pymupdf.EmptyFileError, RuntimeError, ValueError) as error:
        return Unreadable("damaged", str(error)[:200])
    with document:
        if document.needs_pass:
            return Unreadable("encrypted", "needs a password")
        if not document.is_pdf:
            return Unreadable("damaged", "not a PDF, whatever its first bytes say")
        if document.page_count == 0:
            return Unreadable("damaged", "no pages can be read")
        try:
            pages = [_page_blocks(page) for page in document]
        except (RuntimeError, ValueError) as error:
            return Unreadable("damaged", str(error)[:200])
        title = _clean((document.metadata or {}).get("title") or "")
        damaged = bool(document.is_repaired)
    texts = _without_running_lines(pages)
    if damaged and not any(texts):
        return Unreadable("damaged", "repaired, but nothing is left to read")
    return _assemble(title, texts)


@dataclass(frozen=True)
class _Block:
    text: str
    at_edge: bool


def _page_blocks(page: Any) -> list[_Block]:
    """Text blocks of a page in reading order; PyMuPDF gives a column's blocks before the next column's."""
    height = page.rect.height or 1.0
    blocks = []
    for _, top, _, bottom, text, _, kind in page.get_text("blocks"):
        cleaned = _clean(text)
        if kind == 0 and cleaned:
            edge = bottom < height * _EDGE_SHARE or top > height * (1 - _EDGE_SHARE)
            blocks.append(_Block(cleaned, edge))
    return blocks


def _without_running_lines(pages: list[list[_Block]]) -> list[str]:
    """Page texts without the blocks that stand at the edge of most pages (headers, footers, page numbers)."""
    shapes = Counter(shape for blocks in pages for shape in {_shape(b.text) for b in blocks if b.at_edge})
    running = {shape for shape, n in shapes.items() if len(pages) > 1 and n >= max(2, len(pages) * 0.5)}
    texts = []
    for blocks in pages:
        kept = [b.text for b in blocks if not (b.at_edge and (_shape(b.text) in running or not _has_word(b.text)))]
        texts.append("\n\n".join(kept))
    return texts


def _shape(text: str) -> str:
    return _DIGITS.sub("#", text.lower())


def _has_word(text: str) -> bool:
    return any(not token.isdigit() for token in _WORD.findall(text))


def _clean(text: str) -> str:
    """Lines of one block joined into running text, hyphenation and control characters removed."""
    text = _HYPHEN.sub(r"\1\2", _CONTROL.sub("", text.replace("\r", "\n")))
    return " ".join(text.split())


def _assemble(title: str, texts: list[str]) -> PdfText:
    starts, at = [], 0
    for text in texts:
        starts.append(at)
        at += len(text) + len(PAGE_BREAK)
    text = PAGE_BREAK.join(texts)
    if not title:
        title = next((line for line in text.split("\n") if line), "")[:120]
    return PdfText(title[:300], text, starts, len(texts), len(_WORD.findall(text)))
