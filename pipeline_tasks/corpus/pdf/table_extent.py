"""How far a table reaches beyond the rows that gave it away: its box, the next table, rows that keep to it."""

from __future__ import annotations

from itertools import accumulate

from pipeline_tasks.corpus.pdf.model import Segment
from pipeline_tasks.corpus.pdf.rows import is_prose_row, rows_of

_JOIN_LINES = 14.0
_MIN_GUTTER_PT = 4


def whole_tables(tables: list[list[Segment]], outside: list[Segment]) -> list[list[Segment]]:
    """Tables with what stands inside their boxes, each piece in the first that takes it.

    Two are one where only scraps within their width lie between.
    """
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
    grown, taken = [], set[int]()
    for box, members in groups:
        members = members + [s for s in outside if _within(s, box) and id(s) not in taken]
        box = _box(members)
        gutters = _gutters(members, box)
        free = [row for row in rows if id(row[0]) not in taken]
        under = [row for row in free if row[0].y0 > box[3] - 3]
        over = [row for row in reversed(free) if row[0].y1 < box[1] + 3]
        grown.append(members + _more_rows(under, box[3], gutters, box) + _more_rows(over, box[1], gutters, box))
        taken |= {id(s) for s in grown[-1]}
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
        wordy = len(row) > 1 and is_prose_row([[s] for s in row])
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
