"""pypdfium2 as an engine: PDFium's text, cut into segments wherever two words stand far apart."""

from __future__ import annotations

import ctypes
import io
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pipeline_tasks.corpus.pdf.model import CannotRead, PageText, Segment

_MAX_PIXELS = 40e6
_GAP_EMS = 0.8
_BOLD_WEIGHT = 600
_LINE = re.compile("[^\r\n\x02\ufffe]+[\x02\ufffe]?")
"""PDFium marks the hyphen at a line's end in this way, and then no end of line."""


@cache
def _library() -> Any:
    import pypdfium2

    return pypdfium2


def open_pdf(content: bytes) -> _Opened:
    """See :class:`~pipeline_tasks.corpus.pdf.engines.Engine`."""
    pdfium = _library()
    try:
        return _Opened(pdfium.PdfDocument(content))
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium.raw.FPDF_ERR_PASSWORD:
            raise CannotRead("encrypted", "needs a password") from error
        raise CannotRead("damaged", str(error)[:200]) from error


class _Opened:
    repaired = False

    def __init__(self, document: Any) -> None:
        self._document = document
        self.n_pages = len(document)
        names = {"title": "Title", "created": "CreationDate", "modified": "ModDate"}
        self.facts = {name: document.get_metadata_value(key) or "" for name, key in names.items()}

    def page(self, index: int) -> PageText:
        pdfium = _library()
        try:
            page = self._document[index]
            textpage = page.get_textpage()
        except pdfium.PdfiumError as error:
            raise CannotRead("damaged", str(error)[:200]) from error
        try:
            width, height = page.get_size()
            turn = _Turn(page.get_rotation(), page.get_bbox())
            return PageText(width, height, list(_segments(textpage, turn)))
        finally:
            textpage.close()
            page.close()

    def has_image(self, index: int) -> bool:
        page = self._document[index]
        try:
            return any(True for _ in page.get_objects(filter=(_library().raw.FPDF_PAGEOBJ_IMAGE,)))
        finally:
            page.close()

    def picture(self, index: int, dpi: int) -> bytes:
        page = self._document[index]
        width, height = page.get_size()
        scale = min(dpi / 72, (_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
        picture = io.BytesIO()
        page.render(scale=scale, grayscale=True).to_pil().save(picture, "PNG")
        page.close()
        return picture.getvalue()

    def close(self) -> None:
        self._document.close()


class _Turn:
    """Boxes of a page's own space to boxes of the page as it is shown, with the origin at the top left."""

    def __init__(self, rotation: int, bounds: tuple[float, float, float, float]) -> None:
        self._rotation = rotation
        self._left, self._bottom, self._right, self._top = bounds

    def __call__(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        if self._rotation == 90:
            return bottom - self._bottom, left - self._left, top - self._bottom, right - self._left
        if self._rotation == 180:
            return self._right - right, bottom - self._bottom, self._right - left, top - self._bottom
        if self._rotation == 270:
            return self._top - top, self._right - right, self._top - bottom, self._right - left
        return left - self._left, self._top - top, right - self._left, self._top - bottom


def _segments(textpage: Any, turn: _Turn) -> Iterator[Segment]:
    raw = _library().raw
    box = raw.FS_RECTF()
    reference = ctypes.byref(box)
    text, index_of = _characters(textpage, raw)

    def place(at: int) -> tuple[float, float, float, float] | None:
        if not raw.FPDFText_GetLooseCharBox(textpage, index_of(at), reference):
            return None
        return turn(box.left, min(box.bottom, box.top), box.right, max(box.bottom, box.top))

    for match in _LINE.finditer(text):
        start, line = match.start(), match.group()
        words: list[tuple[str, tuple[float, float, float, float]]] = []
        first = start
        for word in line.split(" "):
            if word and (begin := place(first)) and (end := place(first + len(word) - 1)):
                spot = (min(begin[0], end[0]), min(begin[1], end[1]), max(begin[2], end[2]), max(begin[3], end[3]))
                if words and _apart(words[-1][1], spot):
                    yield _segment(words, start, textpage, raw, index_of)
                    words, start = [], first
                words.append((word, spot))
            first += len(word) + 1
        if words:
            yield _segment(words, start, textpage, raw, index_of)


def _characters(textpage: Any, raw: Any) -> tuple[str, Any]:
    """Text of a page, and the index of a character of it in PDFium's own count."""
    n = textpage.count_chars()
    units = (ctypes.c_ushort * (n + 1))()
    written = raw.FPDFText_GetText(textpage, 0, n, units)
    text = bytes(units)[: 2 * max(0, written - 1)].decode("utf-16-le", "replace")
    if len(text) == n:
        return text, lambda at: at
    return text, lambda at: raw.FPDFText_GetCharIndexFromTextIndex(textpage, len(text[:at].encode("utf-16-le")) // 2)


def _apart(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    height = max(left[3] - left[1], 1.0)
    return right[0] - left[2] > _GAP_EMS * height or right[0] < left[0] - height or abs(right[1] - left[1]) > height


def _segment(words: list, start: int, textpage: Any, raw: Any, index_of: Any) -> Segment:
    x0, x1 = min(spot[0] for _, spot in words), max(spot[2] for _, spot in words)
    y0, y1 = min(spot[1] for _, spot in words), max(spot[3] for _, spot in words)
    text = " ".join(word for word, _ in words)
    if text[-1] in "\x02\ufffe":
        text = f"{text[:-1]}-"
    weight = raw.FPDFText_GetFontWeight(textpage, index_of(start))
    first = words[0][1]
    return Segment(x0, y0, x1, y1, (first[3] - first[1]) / 1.15, weight >= _BOLD_WEIGHT, text)
