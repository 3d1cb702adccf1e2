"""Tables, from the geometry of segments alone: rows of cells that stand beside one another and line up below."""

from __future__ import annotations

from itertools import accumulate
from statistics import median

from pipeline_tasks.corpus.pdf.model import Segment

Cell = list[Segment]
Row = list[Cell]
_ALIGNED_PT = 5.0
_ALIGNED_SHARE = 0.6
_MIN_ROWS = 3
_SAME_ROW = 0.5
_JOIN_LINES = 14.0
_MIN_GUTTER_PT = 4
_ROW_GAP_LINES = 3.0
_PROSE_CHARS = 20
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
    groups = _grown([[s for row in table for cell in row for s in cell] for table in tables], outside)
    grown = {id(s) for group in groups for s in group}
    return [s for s in outside if id(s) not in grown], [rows_text(group) for group in groups]


def is_grid(left: list[Segment], right: list[Segment]) -> bool:
    """Whether two columns of segments are the columns of a table: short cells, side by side line after line."""
    cells = left + right
    if min(len(left), len(right)) < _MIN_ROWS or median(len(s.text) for s in cells) >= _PROSE_CHARS:
        return False
    if sum(s.text[0] in _BULLETS for s in cells) > 0.25 * len(cells):
        return False
    heights = sorted(s.y0 for s in left)
    beside = sum(any(abs(s.y0 - y) < 3 for y in heights) for s in right)
    return beside >= max(_MIN_ROWS, 0.7 * len(right))


def is_table_row(row: list[Segment]) -> bool:
    """Whether segments of one baseline are cells: three or more short ones with wide gaps between them."""
    gaps = sum(b.x0 - a.x1 > 1.5 * a.size for a, b in zip(row, row[1:], strict=False))
    return gaps >= 2 and sum(len(s.text) for s in row) < _PROSE_CHARS * len(row)


def rows_of(segments: list[Segment]) -> list[list[Segment]]:
    """Segments by baseline from top to bottom, each row from left to right."""
    rows: list[list[Segment]] = []
    middle = height = 0.0
    for s in sorted(segments, key=lambda s: s.y0 + s.y1):
        centre = (s.y0 + s.y1) / 2
        if rows and centre - middle < _SAME_ROW * min(s.y1 - s.y0, height):
            rows[-1].append(s)
        else:
            rows.append([s])
            middle, height = centre, s.y1 - s.y0
    for row in rows:
        if len(row) > 1:
            row.sort(key=lambda s: s.x0)
    return rows


def rows_text(segments: list[Segment]) -> str:
    """Text of a table: a line for every baseline, what stands apart on it separated by tabs."""
    return "\n".join("\t".join(s.text for s in row) for row in rows_of(segments))


def _grown(tables: list[list[Segment]], outside: list[Segment]) -> list[list[Segment]]:
    """Tables with what stands inside their boxes; two are one where only scraps within their width lie between."""
    groups: list[tuple[list[float], list[Segment]]] = []
    for table in tables:
        box = _box(table)
        if groups:
            above, members = groups[-1]
            union = [min(above[0], box[0]), above[1], max(above[2], box[2]), max(above[3], box[3])]
            line = table[0].y1 - table[0].y0
            shared = min(above[2], box[2]) - max(above[0], box[0])
            near = -line < box[1] - above[3] < _JOIN_LINES * line and shared > 0.7 * (union[2] - union[0])
            between = [s for s in outside if s.y1 > above[3] and s.y0 < box[1] and s.x1 > union[0] and s.x0 < union[2]]
            if near and all(_within(s, union) and s.x1 - s.x0 < 0.6 * (union[2] - union[0]) for s in between):
                groups[-1] = (union, members + table)
                continue
        groups.append((box, table))
    inside = {id(s) for box, _ in groups for s in outside if _within(s, box)}
    rows = rows_of([s for s in outside if id(s) not in inside])
    grown = []
    for box, members in groups:
        members = members + [s for s in outside if _within(s, box)]
        box = _box(members)
        gutters = _gutters(members, box)
        below = [row for row in rows if row[0].y0 > box[3] - 3]
        above = [row for row in reversed(rows) if row[0].y1 < box[1] + 3]
        grown.append(members + _more_rows(below, box[3], gutters, box) + _more_rows(above, box[1], gutters, box))
    return grown


def _gutters(members: list[Segment], box: list[float]) -> list[float]:
    """Middles of the upright strips that hardly any segment of a table crosses."""
    width = int(box[2] - box[0]) + 2
    steps = [0] * (width + 1)
    for s in members:
        steps[int(s.x0 - box[0])] += 1
        steps[int(s.x1 - box[0]) + 1] -= 1
    allowed, found, start = 0.08 * len(members), [], None
    for x, cover in enumerate(accumulate(steps[:width])):
        if cover <= allowed:
            start = x if start is None else start
        elif start is not None:
            if x - start >= _MIN_GUTTER_PT and start > 0:
                found.append(box[0] + (x + start) / 2)
            start = None
    return found


def _more_rows(rows: list[list[Segment]], edge: float, gutters: list[float], box: list[float]) -> list[Segment]:
    """Segments of the rows next to a table that keep to its columns, up to the first row that does not.

    Rows that have text in the first column alone count only where a row with more follows.
    """
    taken: list[Segment] = []
    waiting: list[Segment] = []
    for row in rows:
        line = row[0].y1 - row[0].y0
        gap = max(row[0].y0 - edge, edge - row[0].y1)
        keeps = all(box[0] - 3 < s.x0 and s.x1 < box[2] + 3 * line for s in row)
        wordy = len(row) > 1 and _is_prose_row([[s] for s in row])
        if not gutters or wordy or gap > 1.6 * line or not keeps or any(s.x0 < g < s.x1 for s in row for g in gutters):
            break
        edge = row[0].y1 if row[0].y0 > edge - 3 else row[0].y0
        waiting += row
        if len(row) > 1 or row[0].x0 > gutters[0]:
            taken += waiting
            waiting = []
    return taken


def _box(segments: list[Segment]) -> list[float]:
    return [
        min(s.x0 for s in segments),
        min(s.y0 for s in segments),
        max(s.x1 for s in segments),
        max(s.y1 for s in segments),
    ]


def _within(s: Segment, box: list[float]) -> bool:
    slack = 0.3 * (s.y1 - s.y0)
    return s.x0 > box[0] - 2 and s.x1 < box[2] + 2 and s.y0 > box[1] - slack and s.y1 < box[3] + slack


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
            left, right = min(c.x0 for c in cell[-3:]), max(c.x1 for c in cell[-3:])
            indented = len(row) == 1 or s.x0 > left - 3 * s.size
            if below and indented and s.x0 < right and s.x1 > left:
                cell.append(s)
                continue
        rows.append([[s]])
    return rows


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
    prose = _is_prose_row(rows[start])
    while end < len(rows) and end - last_full < 2 and _follows(rows[end - 1], rows[end]):
        if len(rows[end]) > 1 and _is_prose_row(rows[end]) != prose:
            break
        end += 1
        if len(rows[end - 1]) > 1:
            last_full = end
    found = rows[start:last_full]
    full = [row for row in found if len(row) > 1]
    enough = len(full) >= _MIN_ROWS or (len(full) == 2 and min(map(len, full)) >= 3)
    return last_full if enough and _lines_up(full) and not _is_prose(full) else start


def _is_prose_row(row: Row) -> bool:
    """Whether a row is long lines side by side, as in columns of prose that are drawn line by line."""
    sizes = [max(len(s.text) for s in cell) for cell in row]
    return len(row) <= 3 and sum(sizes) >= _PROSE_CHARS * len(row) and min(sizes) > 0.55 * max(sizes)


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
    if all(_is_prose_row(row) for row in full):
        return True
    n = max(map(len, full))
    if n > 3 or len(full) < _MIN_ROWS:
        return False
    for at in range(n):
        column = [s for row in full if len(row) == n for s in row[at]]
        widest = max(s.x1 - s.x0 for s in column)
        filled = sum(s.x1 - s.x0 > 0.7 * widest for s in column)
        if median(len(s.text) for s in column) < _PROSE_CHARS or filled < 0.6 * len(column):
            return False
    return True
