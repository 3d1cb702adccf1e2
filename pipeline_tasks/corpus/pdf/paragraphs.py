"""Lines of a column to paragraphs: by leading, size, indent, list marks and lines that end short."""

from __future__ import annotations

import re

from pipeline_tasks.corpus.pdf.model import Paragraph, Segment

_MARK = r"(?:[•▪◦‣·●○■□▫➢✓❖➤►♦–—\-*\uf0b7\uf0a7\uf0d8\uf0fc]|\(?(?:\d{1,2}|[a-zA-Z])[.)])"
_ITEM = re.compile(rf"(?:{_MARK}\s+\S|o\s+[A-Z])")
_LONE_MARK = re.compile(rf"(?:{_MARK}|o)")
_MARK_EMS = 6.0
_CAPTION = re.compile(
    r"(?i:figure|fig\.|table|tbl\.|exhibit|photo|map|chart|plate|graph|illustration)\s+"
    r"(?:[A-Z]{0,2}[-.]?\d+(?:[-.]\d+)*[a-z]?|[IVXLC]+)\b\s*(?:[.:–—|-]|\(?(?=[A-Z\"“(])|$)"
)
_END = re.compile(r"[.!?:;][\"'”’)\]]*$")


def is_caption(text: str) -> bool:
    """Whether ``text`` begins like the caption of a figure or table: its number, and no sentence about it."""
    return text[:1] in "FfTtEePpMmCcGgIi" and _CAPTION.match(text) is not None


def join_marks(segments: list[Segment]) -> list[Segment]:
    """Segments in the same order, the mark of a list's item and the item's first line in one."""
    if not any(_is_mark(s.text) for s in segments):
        return segments
    joined: list[Segment] = []
    for s in segments:
        mark = joined[-1] if joined else s
        near = 0 <= s.x0 - mark.x1 < _MARK_EMS * s.size and abs(s.y1 - mark.y1) < 0.5 * s.size
        if joined and near and _is_mark(mark.text):
            top, foot = min(mark.y0, s.y0), max(mark.y1, s.y1)
            joined[-1] = Segment(mark.x0, top, s.x1, foot, s.size, s.bold, f"{mark.text} {s.text}", s.face)
        else:
            joined.append(s)
    return joined


def _is_mark(text: str) -> bool:
    return len(text) < 5 and _LONE_MARK.fullmatch(text) is not None


def to_paragraphs(columns: list[list[Segment]], page: int) -> list[Paragraph]:
    """Paragraphs of a page in the order of its columns."""
    pitch = _leading(columns)
    found = []
    for lines in columns:
        if not lines:
            continue
        left, right = min(s.x0 for s in lines), max(s.x1 for s in lines)
        group = [lines[0]]
        for line in lines[1:]:
            if _breaks(group, line, left, right, pitch):
                found.append(_paragraph(group, page))
                group = []
            group.append(line)
        found.append(_paragraph(group, page))
    return found


def _leading(columns: list[list[Segment]]) -> float:
    """Distance of two baselines inside a paragraph, in sizes of the upper line: the lower quartile of all."""
    steps = sorted(
        (below.y1 - above.y1) / above.size
        for lines in columns
        for above, below in zip(lines, lines[1:], strict=False)
        if above.size > 0 and 0.8 < (below.y1 - above.y1) / above.size < 2.2
    )
    return steps[len(steps) // 4] if steps else 1.3


def _breaks(group: list[Segment], line: Segment, left: float, right: float, pitch: float) -> bool:
    last, size = group[-1], group[-1].size or 1.0
    if len(group) == 1 and _is_mark(last.text):
        return False
    if line.y1 - last.y1 > (pitch + 0.35) * max(size, line.size):
        return True
    if not 0.87 < line.size / size < 1.15 and abs(line.size - size) > 1:
        return True
    if _ITEM.match(line.text) or _is_mark(line.text):
        return True
    if last.x1 < right - 0.2 * (right - left) and (_END.search(last.text) or _is_heading(group, line)):
        return True
    return line.x0 > group[0].x0 + 0.9 * size and line.x0 > last.x0 + 0.9 * size and not _ITEM.match(group[0].text)


def _is_heading(group: list[Segment], line: Segment) -> bool:
    """Whether one or two short lines are in another type than the sentence that begins below them."""
    first, last = group[0], group[-1]
    if len(group) > 2 or not line.text[0].isupper() or last.text[-1] in ",-" or _ITEM.match(first.text):
        return False
    return (first.face, first.bold) != (line.face, line.bold) and not is_caption(first.text)


def _paragraph(group: list[Segment], page: int) -> Paragraph:
    first = group[0]
    text = "\n".join(s.text for s in group)
    if len(group) > 1 and _is_mark(first.text):
        text = text.replace("\n", " ", 1)
    size = max(group, key=lambda s: len(s.text)).size
    bold = all(s.bold for s in group)
    top, bottom = min(s.y0 for s in group), max(s.y1 for s in group)
    return Paragraph(page, text, size, bold, top, bottom, bool(_ITEM.match(text)))
