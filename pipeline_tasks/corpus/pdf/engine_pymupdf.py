"""PyMuPDF as an engine: MuPDF itself prints the lines of a page as JSON, faster than Python could walk them."""

from __future__ import annotations

import json
from functools import cache
from itertools import count
from typing import Any

from pipeline_tasks.corpus.pdf.model import ASCENT, DESCENT, CannotRead, PageText, Segment

_SCALE = 8
_MAX_PIXELS = 40e6
_SHRINK_EVERY = 16
"""Documents after which MuPDF forgets the fonts and pictures of those before; after each it would load them anew."""
_opened = count()


@cache
def _library() -> Any:
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    return pymupdf


@cache
def _errors() -> tuple[type[Exception], ...]:
    """What MuPDF and its binding raise about a file."""
    return RuntimeError, ValueError, _library().mupdf.FzErrorBase


def open_pdf(content: bytes) -> _Opened:
    """See :class:`~pipeline_tasks.corpus.pdf.engines.Engine`."""
    pymupdf = _library()
    if next(_opened) % _SHRINK_EVERY == 0:
        pymupdf.TOOLS.store_shrink(100)
    try:
        document = pymupdf.open(stream=content, filetype="pdf")
    except _errors() as error:
        raise _refusal(error) from error
    if not document.is_pdf:
        raise CannotRead("damaged", "not a PDF, whatever its first bytes say")
    if document.needs_pass:
        raise CannotRead("encrypted", "needs a password")
    try:
        return _Opened(document)
    except _errors() as error:
        raise _refusal(error) from error


class _Opened:
    def __init__(self, document: Any) -> None:
        self._document = document
        self.n_pages: int = document.page_count
        self.repaired = bool(document.is_repaired)
        metadata = document.metadata or {}
        names = {"title": "title", "created": "creationDate", "modified": "modDate"}
        texts = {name: metadata.get(key) or "" for name, key in names.items()}
        self.facts = {name: text.encode("utf-8", "ignore").decode() for name, text in texts.items()}  # no halves

    def page(self, index: int) -> PageText:
        pymupdf = _library()
        flags = pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE
        try:
            page = self._document.load_page(index)
            bounds = page.rect
            lines = _lines_as_json(pymupdf.mupdf, page.get_textpage(flags=flags).this)
        except _errors() as error:
            raise _refusal(error) from error
        found = [line for block in lines["blocks"] for line in block.get("lines", ()) if line["text"].strip()]
        turned = sum(_runs_upright(line) for line in found) > len(found) / 2
        width, height = (bounds.height, bounds.width) if turned else (bounds.width, bounds.height)
        return PageText(width, height, [_segment(line, bounds) for line in found])

    def has_image(self, index: int) -> bool:
        try:
            return bool(self._document.get_page_images(index))
        except _errors():  # a damaged page has none that can be seen
            return False

    def picture(self, index: int, dpi: int) -> bytes:
        try:
            page = self._document.load_page(index)
            points = max(1.0, page.rect.width * page.rect.height)
            dpi = min(dpi, int(72 * (_MAX_PIXELS / points) ** 0.5))
            return page.get_pixmap(dpi=max(1, dpi), colorspace=_library().csGRAY).tobytes("pgm")
        except _errors() as error:
            raise _refusal(error) from error

    def close(self) -> None:
        self._document.close()


def _lines_as_json(mupdf: Any, textpage: Any) -> dict[str, Any]:
    buffer = mupdf.fz_new_buffer(1 << 14)
    output = mupdf.FzOutput(buffer)
    mupdf.fz_print_stext_page_as_json(output, textpage, _SCALE)
    output.fz_close_output()
    return json.loads(mupdf.fz_buffer_extract_copy(buffer).decode("utf-8", "replace"), strict=False)


def _runs_upright(line: dict[str, Any]) -> bool:
    """Whether a line runs up or down the page as it is shown; MuPDF prints boxes, not directions."""
    box, size, n = line["bbox"], line["font"]["size"], len(line["text"])
    return n > 2 and box["w"] < 1.8 * size and box["h"] > 2 * box["w"] and box["h"] > 0.3 * size * n


def _segment(line: dict[str, Any], bounds: Any) -> Segment:
    """A line as a segment, in the frame in which it reads from left to right.

    Its height follows from size and baseline: the boxes of some fonts are several lines high.
    """
    box, font = line["bbox"], line["font"]
    size = font["size"] / _SCALE or 1.0
    left, right, baseline = box["x"] / _SCALE, (box["x"] + box["w"]) / _SCALE, line["y"] / _SCALE
    if _runs_upright(line):
        top, bottom, across = box["y"] / _SCALE, (box["y"] + box["h"]) / _SCALE, line["x"] / _SCALE
        if abs(baseline - top) < abs(baseline - bottom):
            left, right, baseline = top, bottom, bounds.width - across
        else:
            left, right, baseline = bounds.height - bottom, bounds.height - top, across
    bold = font["weight"] == "bold"
    top, foot = baseline - ASCENT * size, baseline + DESCENT * size
    return Segment(left, top, right, foot, size, bold, line["text"].strip(), font["name"])


def _refusal(error: Exception) -> CannotRead:
    memory = "malloc" in str(error) or "out of memory" in str(error).lower()
    return CannotRead("memory" if memory else "damaged", str(error)[:200])
