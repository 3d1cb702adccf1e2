"""PyMuPDF as an engine. MuPDF prints a page's lines as JSON by itself, several times faster than Python can walk them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pipeline_tasks.corpus.pdf.model import CannotRead, PageText, Segment

_SCALE = 8
_MAX_PIXELS = 40e6


@cache
def _library() -> Any:
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    return pymupdf


def open_pdf(content: bytes) -> _Opened:
    """See :class:`~pipeline_tasks.corpus.pdf.engines.Engine`."""
    pymupdf = _library()
    pymupdf.TOOLS.store_shrink(100)
    try:
        document = pymupdf.open(stream=content, filetype="pdf")
    except (RuntimeError, ValueError) as error:
        raise _refusal(error) from error
    if document.needs_pass:
        raise CannotRead("encrypted", "needs a password")
    if not document.is_pdf:
        raise CannotRead("damaged", "not a PDF, whatever its first bytes say")
    return _Opened(document)


class _Opened:
    def __init__(self, document: Any) -> None:
        self._document = document
        self.n_pages: int = document.page_count
        self.repaired = bool(document.is_repaired)
        metadata = document.metadata or {}
        names = {"title": "title", "created": "creationDate", "modified": "modDate"}
        self.facts = {name: metadata.get(key) or "" for name, key in names.items()}

    def page(self, index: int) -> PageText:
        pymupdf = _library()
        flags = pymupdf.TEXT_MEDIABOX_CLIP | pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE
        try:
            page = self._document.load_page(index)
            bounds = page.rect
            lines = _lines_as_json(pymupdf.mupdf, page.get_textpage(flags=flags).this)
        except (RuntimeError, ValueError) as error:
            raise _refusal(error) from error
        segments = []
        for block in lines["blocks"]:
            for line in block.get("lines", ()):
                text = line["text"].strip()
                if text:
                    box, font = line["bbox"], line["font"]
                    left, top = box["x"] / _SCALE, box["y"] / _SCALE
                    right, bottom = left + box["w"] / _SCALE, top + box["h"] / _SCALE
                    size = font["size"] / _SCALE
                    if box["h"] > 1.8 * font["size"] and box["h"] > 2 * box["w"] and len(text) > 3:
                        left, top, right, bottom = _upright(line, bounds)
                    segments.append(Segment(left, top, right, bottom, size, font["weight"] == "bold", text))
        return PageText(bounds.width, bounds.height, segments)

    def has_image(self, index: int) -> bool:
        return bool(self._document.get_page_images(index))

    def picture(self, index: int, dpi: int) -> bytes:
        page = self._document.load_page(index)
        points = max(1.0, page.rect.width * page.rect.height)
        dpi = min(dpi, int(72 * (_MAX_PIXELS / points) ** 0.5))
        return page.get_pixmap(dpi=max(1, dpi), colorspace=_library().csGRAY).tobytes("png")

    def close(self) -> None:
        self._document.close()


def _lines_as_json(mupdf: Any, textpage: Any) -> dict[str, Any]:
    buffer = mupdf.fz_new_buffer(1 << 14)
    output = mupdf.FzOutput(buffer)
    mupdf.fz_print_stext_page_as_json(output, textpage, _SCALE)
    output.fz_close_output()
    return json.loads(mupdf.fz_buffer_extract_copy(buffer).decode("utf-8", "replace"), strict=False)


def _upright(line: dict[str, Any], bounds: Any) -> tuple[float, float, float, float]:
    """The box of a line that runs up or down the page, as if the page were turned until it reads from left to right."""
    box = line["bbox"]
    left, top = box["x"] / _SCALE, box["y"] / _SCALE
    right, bottom = left + box["w"] / _SCALE, top + box["h"] / _SCALE
    if abs(line["y"] - box["y"]) < abs(line["y"] - box["y"] - box["h"]):
        return top, bounds.width - right, bottom, bounds.width - left
    return bounds.height - bottom, left, bounds.height - top, right


def _refusal(error: Exception) -> CannotRead:
    memory = "malloc" in str(error) or "out of memory" in str(error).lower()
    return CannotRead("memory" if memory else "damaged", str(error)[:200])
