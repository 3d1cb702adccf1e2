"""Lines of a column to paragraphs: by leading, size, indent, list marks and lines that end short."""

from __future__ import annotations

import re
from statistics import median

from pipeline_tasks.corpus.pdf.model import Paragraph, Segment

_ITEM = re.compile(r"(?:[•▪◦‣·●○■□▫➢✓–—\-*]|\(?(?:\d{1,2}|[a-zA-Z])[.)])\s+\S")
_LONE_MARK = re.compile(r"(?:[•▪◦‣·●○■□▫➢✓–—\-*o]|\(?(?:\d{1,2}|[a-zA-Z])[.)])")
_END = re.compile(r"[.!?:;][\"'”’)\]]*$")


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
    """Usual distance of two baselines in sizes of the upper line."""
    steps = [
        (below.y1 - above.y1) / above.size
        for lines in columns
        for above, below in zip(lines, lines[1:], strict=False)
        if above.size > 0 and 0.8 < (below.y1 - above.y1) / above.size < 2.2
    ]
    return median(steps) if steps else 1.3


def _breaks(group: list[Segment], line: Segment, left: float, right: float, pitch: float) -> bool:
    last, size = group[-1], group[-1].size or 1.0
    if _LONE_MARK.fullmatch(last.text) and len(group) == 1:
        return False
    if line.y1 - last.y1 > (pitch + 0.35) * max(size, line.size):
        return True
    if not 0.87 < line.size / size < 1.15 and abs(line.size - size) > 1:
        return True
    if _ITEM.match(line.text) or _LONE_MARK.fullmatch(line.text):
        return True
    short = last.x1 < right - 0.2 * (right - left)
    if short and (line.bold != last.bold or _END.search(last.text)):
        return True
    return line.x0 > group[0].x0 + 0.9 * size and line.x0 > last.x0 + 0.9 * size and not _ITEM.match(group[0].text)


def _paragraph(group: list[Segment], page: int) -> Paragraph:
    first = group[0]
    text = "\n".join(s.text for s in group)
    if _LONE_MARK.fullmatch(first.text) and len(group) > 1:
        text = text.replace("\n", " ", 1)
    size = max(group, key=lambda s: len(s.text)).size
    bold = all(s.bold for s in group)
    top, bottom = min(s.y0 for s in group), max(s.y1 for s in group)
    return Paragraph(page, text, size, bold, top, bottom, bool(_ITEM.match(text)))
