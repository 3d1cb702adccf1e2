"""pypdfium2 as an engine: PDFium's text, cut into segments wherever two words stand far apart."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pipeline_tasks.corpus.pdf.model import ASCENT, DESCENT, CannotRead, PageText, Segment

_MAX_PIXELS = 40e6
_GAP_EMS = 0.95
_BOLD_WEIGHT = 600
_MOST_OF_A_CLIP = 100
"""A clip of more paths, or of a path of more points, hides nothing here: every text below it would walk them again."""
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
        self.facts = {name: self._fact(key) for name, key in names.items()}

    def _fact(self, key: str) -> str:
        try:
            return self._document.get_metadata_value(key) or ""
        except UnicodeDecodeError:  # half of a character, which is no fault of the text
            return ""

    def page(self, index: int) -> PageText:
        pdfium = _library()
        try:
            page = self._document[index]
            _hide_clipped(page)
            textpage = page.get_textpage()
        except pdfium.PdfiumError as error:
            raise CannotRead("damaged", str(error)[:200]) from error
        try:
            reader = _Reader(textpage, page.get_bbox(), page.get_rotation())
            segments = list(reader.segments())
            width, height = page.get_size()
            turned = reader.n_turned > len(segments) / 2
            return PageText(*((height, width) if turned else (width, height)), segments)
        finally:
            textpage.close()
            page.close()

    def has_image(self, index: int) -> bool:
        try:
            page = self._document[index]
        except _library().PdfiumError:
            return False
        try:
            return any(True for _ in page.get_objects(filter=(_library().raw.FPDF_PAGEOBJ_IMAGE,)))
        finally:
            page.close()

    def picture(self, index: int, dpi: int) -> bytes:
        page = self._document[index]
        width, height = page.get_size()
        scale = min(dpi / 72, (_MAX_PIXELS / max(1.0, width * height)) ** 0.5)
        bitmap = page.render(scale=scale, grayscale=True)
        pixels, columns, rows, stride = bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride
        page.close()
        lines = b"".join(pixels[row * stride : row * stride + columns] for row in range(rows))
        return b"P5 %d %d 255\n" % (columns, rows) + lines

    def close(self) -> None:
        self._document.close()


def _hide_clipped(page: Any) -> None:
    """Leave out of a page's text what its clip paths hide: of a page that was placed for its picture, all but that."""
    raw, edges = _library().raw, [ctypes.c_float() for _ in range(4)]
    for index in range(raw.FPDFPage_CountObjects(page)):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) != raw.FPDF_PAGEOBJ_TEXT or not raw.FPDFPageObj_GetBounds(item, *edges):
            continue
        left, foot, right, top = (edge.value for edge in edges)
        if left < right and foot < top:
            clips = _clips(raw, raw.FPDFPageObj_GetClipPath(item))
            if any(right <= clip[0] or left >= clip[2] or top <= clip[1] or foot >= clip[3] for clip in clips):
                raw.FPDFPageObj_SetIsActive(item, False)


def _clips(raw: Any, clip: Any) -> Iterator[tuple[float, float, float, float]]:
    """The boxes of an object's clip paths, each of which hides what lies outside of it."""
    x, y = ctypes.c_float(), ctypes.c_float()
    n_paths = raw.FPDFClipPath_CountPaths(clip) if clip else 0
    for path in range(n_paths if n_paths <= _MOST_OF_A_CLIP else 0):
        n_points = raw.FPDFClipPath_CountPathSegments(clip, path)
        across, up = [], []
        for at in range(n_points if n_points <= _MOST_OF_A_CLIP else 0):
            if raw.FPDFPathSegment_GetPoint(raw.FPDFClipPath_GetPathSegment(clip, path, at), x, y):
                across.append(x.value)
                up.append(y.value)
        if across:
            yield min(across), min(up), max(across), max(up)


class _Reader:
    """Walks the lines of a page as PDFium gives them, each in the frame in which it reads from left to right."""

    def __init__(self, textpage: Any, bounds: tuple[float, float, float, float], rotation: int) -> None:
        self._raw, self._textpage, self._rotation = _library().raw, textpage, rotation
        self._bounds = bounds
        self._box, self._matrix = self._raw.FS_RECTF(), self._raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(128)
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self.n_turned = 0
        n = textpage.count_chars()
        units = (ctypes.c_ushort * (n + 1))()
        written = self._raw.FPDFText_GetText(textpage, 0, n, units)
        self._text = bytes(units)[: 2 * max(0, written - 1)].decode("utf-16-le", "replace")
        self._same_count = len(self._text) == n

    def segments(self) -> Iterator[Segment]:
        """Segments in PDFium's order."""
        for match in _LINE.finditer(self._text):
            first = match.start()
            start, (turn, size) = first, self._style(first)
            words: list[str] = []
            left = right = top = 0.0
            for word in match.group().split(" "):
                if word and (begin := self._place(first, turn)) and (end := self._place(first + len(word) - 1, turn)):
                    box = min(begin[0], end[0]), begin[1], max(begin[2], end[2])
                    if words and _apart(left, right, top, box, size):
                        yield self._segment(words, start, left, right, turn)
                        words = []
                    if not words:
                        start, (left, top, right) = first, box
                    words.append(word)
                    left, right = min(left, box[0]), max(right, box[2])
                first += len(word) + 1
            if words:
                yield self._segment(words, start, left, right, turn)

    def _index(self, at: int) -> int:
        """PDFium's own count of the character ``at``; it leaves some out of the text."""
        if self._same_count:
            return at
        units = len(self._text[:at].encode("utf-16-le")) // 2
        return self._raw.FPDFText_GetCharIndexFromTextIndex(self._textpage, units)

    def _style(self, at: int) -> tuple[int, float]:
        """Degrees, clockwise, by which the page must be turned to read a character, and the size it is shown at."""
        m, index = self._matrix, self._index(at)
        size = self._raw.FPDFText_GetFontSize(self._textpage, index)
        if not self._raw.FPDFText_GetMatrix(self._textpage, index, ctypes.byref(m)):
            return self._rotation, abs(size) or 1.0
        along, up = m.a * size, m.b * size  # a negative size turns what its matrix has turned
        size = abs(size) * math.hypot(m.c, m.d) or 1.0
        if abs(up) > abs(along):
            return (90 if up > 0 else 270), size
        return (0 if along >= 0 else 180), size

    def _place(self, at: int, turn: int) -> tuple[float, float, float, float] | None:
        box = self._box
        if not self._raw.FPDFText_GetLooseCharBox(self._textpage, self._index(at), ctypes.byref(box)):
            return None
        return self._turned(box.left, min(box.bottom, box.top), box.right, max(box.bottom, box.top), turn)

    def _turned(
        self, left: float, bottom: float, right: float, top: float, turn: int
    ) -> tuple[float, float, float, float]:
        west, south, east, north = self._bounds
        if turn == 90:
            return bottom - south, left - west, top - south, right - west
        if turn == 180:
            return east - right, bottom - south, east - left, top - south
        if turn == 270:
            return north - top, east - right, north - bottom, east - left
        return left - west, north - top, right - west, north - bottom

    def _segment(self, words: list[str], start: int, left: float, right: float, turn: int) -> Segment:
        raw, index = self._raw, self._index(start)
        _, size = self._style(start)
        raw.FPDFText_GetCharOrigin(self._textpage, index, ctypes.byref(self._x), ctypes.byref(self._y))
        x, y = self._x.value, self._y.value
        baseline = self._turned(x, y, x, y, turn)[1]
        self.n_turned += (turn - self._rotation) % 180 == 90
        text = " ".join(words)
        if text[-1] in "\x02\ufffe":
            text = f"{text[:-1]}-"
        bold = raw.FPDFText_GetFontWeight(self._textpage, index) >= _BOLD_WEIGHT
        length = raw.FPDFText_GetFontInfo(self._textpage, index, self._name, len(self._name), None)
        face = self._name.raw[: max(0, min(length, len(self._name)) - 1)].decode("utf-8", "replace")
        top, foot = baseline - ASCENT * size, baseline + DESCENT * size
        return Segment(left, top, right, foot, size, bold, text, face)


def _apart(left: float, right: float, top: float, word: tuple[float, float, float], size: float) -> bool:
    """Whether a word stands off the words before it: after a wide gap on either side, or on another line."""
    return max(word[0] - right, left - word[2]) > _GAP_EMS * size or abs(word[1] - top) > size
