"""Tables, from the geometry of segments alone: rows of cells that stand beside one another and line up below."""

from __future__ import annotations

from statistics import median

from pipeline_tasks.corpus.pdf.model import Segment
from pipeline_tasks.corpus.pdf.rows import PROSE_CHARS, is_prose_row, rows_text
from pipeline_tasks.corpus.pdf.table_extent import whole_tables

Cell = list[Segment]
Row = list[Cell]
_ALIGNED_PT = 5.0
_ALIGNED_SHARE = 0.6
_MIN_ROWS = 3
_ROW_GAP_LINES = 3.0
_SCRAP_CHARS = 14
_SENTENCE_CHARS = 60
_BULLETS = "•▪◦‣·●○■□–-*o✓➢"


def take_tables(segments: list[Segment]) -> tuple[list[Segment], list[str]]:
    """The segments outside tables, and the tables' texts: a line for every row, its cells separated by tabs.

    Most PDFs draw a table row by row, so the order of drawing tells a table from columns of prose: in a table the pen
    goes back to the right of what it has just written, again and again.
    """
    rows = _rows(segments)
    tables = []
    at = 0
    while at < len(rows):
        end = _table_end(rows, at)
        if end > at:
            tables.append(rows[at:end])
            at = end
        else:
            at += 1
    if not tables:
        return segments, []
    inside = {id(s) for table in tables for row in table for cell in row for s in cell}
    outside = [s for s in segments if id(s) not in inside]
    groups = whole_tables([[s for row in table for cell in row for s in cell] for table in tables], outside)
    grown = {id(s) for group in groups for s in group}
    return [s for s in outside if id(s) not in grown], [rows_text(group) for group in groups]


def is_grid(left: list[Segment], right: list[Segment]) -> bool:
    """Whether two columns of segments are the columns of a table: short cells, side by side line after line."""
    cells = left + right
    if min(len(left), len(right)) < _MIN_ROWS or median(len(s.text) for s in cells) >= PROSE_CHARS:
        return False
    if sum(s.text[0] in _BULLETS for s in cells) > 0.25 * len(cells):
        return False
    heights = sorted(s.y0 for s in left)
    beside = sum(any(abs(s.y0 - y) < 3 for y in heights) for s in right)
    return beside >= max(_MIN_ROWS, 0.7 * len(right))


def _rows(segments: list[Segment]) -> list[Row]:
    """Segments in drawing order as rows of cells; a paragraph is a row of one cell."""
    rows: list[Row] = []
    for s in segments:
        if rows:
            row = rows[-1]
            cell = row[-1]
            last, slack = cell[-1], 0.3 * (s.y1 - s.y0)
            if _is_beside(cell, s, slack):
                if len(row) == 1 and len(cell) > 1:
                    _split_paragraph(rows, s, slack)
                rows[-1].append([s])
                continue
            below = s.y0 > last.y0 + slack and s.y0 - last.y1 < 2 * slack
            if below and _overhangs(cell, s, slack=3 * s.size if len(row) > 1 else float("inf")):
                cell.append(s)
                continue
        rows.append([[s]])
    return rows


def _overhangs(cell: Cell, s: Segment, slack: float) -> bool:
    """Whether ``s`` shares some width with the last lines of ``cell`` and begins at most ``slack`` left of them."""
    left, right = min(c.x0 for c in cell[-3:]), max(c.x1 for c in cell[-3:])
    return left - slack < s.x0 < right and s.x1 > left


def _is_beside(cell: Cell, s: Segment, slack: float) -> bool:
    """Whether ``s`` stands to the right of the lines of ``cell`` that it shares a height with, of which there are."""
    shared = False
    for line in reversed(cell):
        if line.y1 <= s.y0 + slack:
            break
        if line.y0 < s.y1 - slack:
            if s.x0 < line.x1 - 1:
                return False
            shared = True
    return shared


def _split_paragraph(rows: list[Row], beside: Segment, slack: float) -> None:
    """Cut the last paragraph where ``beside`` begins: the lines from there on are the first cell of a row."""
    cell = rows[-1][0]
    at = next((i for i, line in enumerate(cell) if line.y1 > beside.y0 + slack), 0)
    if at:
        rows[-1] = [cell[:at]]
        rows.append([cell[at:]])


def _table_end(rows: list[Row], start: int) -> int:
    """The row after the table that begins at ``start``, or ``start`` where none begins."""
    if len(rows[start]) < 2:
        return start
    end = last_full = start + 1
    prose = is_prose_row(rows[start])
    while end < len(rows) and end - last_full < 2 and _follows(rows[end - 1], rows[end]):
        if len(rows[end]) > 1 and is_prose_row(rows[end]) != prose:
            break
        end += 1
        if len(rows[end - 1]) > 1:
            last_full = end
    found = rows[start:last_full]
    full = [row for row in found if len(row) > 1]
    enough = len(full) >= _MIN_ROWS or (len(full) == 2 and min(map(len, full)) >= 3)
    return last_full if enough and _lines_up(full) and not _is_prose(full) else start


def _follows(above: Row, below: Row) -> bool:
    foot = max(cell[-1].y1 for cell in above)
    first = below[0][0]
    line = first.y1 - first.y0
    if not above[0][0].y0 < first.y0 < foot + _ROW_GAP_LINES * line:
        return False
    return len(below) > 1 or (len(below[0]) <= 2 and all(len(s.text) < _SENTENCE_CHARS for s in below[0]))


def _lines_up(full: list[Row]) -> bool:
    """Whether cells right of the first stand below one another; margins say nothing, prose has them too."""
    matches = total = 0
    for above, below in zip(full, full[1:], strict=False):
        anchors = [_anchors(cell) for cell in above[1:]]
        for cell in below[1:]:
            left, middle, right = _anchors(cell)
            scrap = sum(len(s.text) for s in cell) <= _SCRAP_CHARS
            total += 1
            matches += any(
                abs(a - left) < _ALIGNED_PT or abs(b - middle) < _ALIGNED_PT or (scrap and abs(c - right) < _ALIGNED_PT)
                for a, b, c in anchors
            )
    return matches >= _ALIGNED_SHARE * total


def _anchors(cell: Cell) -> tuple[float, float, float]:
    left, right = min(s.x0 for s in cell), max(s.x1 for s in cell)
    return left, (left + right) / 2, right


def _is_prose(full: list[Row]) -> bool:
    """Columns of prose drawn by turns, line by line: in each of them most lines are long and fill it."""
    if all(is_prose_row(row) for row in full):
        return True
    n = max(map(len, full))
    if n > 3 or len(full) < _MIN_ROWS:
        return False
    for at in range(n):
        column = [s for row in full if len(row) == n for s in row[at]]
        widest = max(s.x1 - s.x0 for s in column)
        filled = sum(s.x1 - s.x0 > 0.7 * widest for s in column)
        if median(len(s.text) for s in column) < PROSE_CHARS or filled < 0.6 * len(column):
            return False
    return True
