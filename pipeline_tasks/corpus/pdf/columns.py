"""Reading order: a page is cut along its gutters and gaps until no part has two things side by side."""

from __future__ import annotations

from itertools import accumulate
from statistics import median

from pipeline_tasks.corpus.pdf.model import Segment
from pipeline_tasks.corpus.pdf.rows import is_table_row, rows_of, rows_text
from pipeline_tasks.corpus.pdf.tables import is_grid

_MIN_SIDE = 3
_MAX_DEPTH = 12
_HANGING_PT = 4.0
_CROSSING_SHARE = 0.3


def reading_order(segments: list[Segment]) -> tuple[list[list[Segment]], list[str]]:
    """Lines of the page by column, in reading order, and the texts of what turns out to be tables.

    A column is a list of lines from top to bottom; segments of one baseline in it are joined.
    """
    columns: list[list[Segment]] = []
    grids: list[str] = []
    if segments:
        _cut(segments, columns, grids, 0)
    return columns, grids


def _cut(segments: list[Segment], columns: list[list[Segment]], grids: list[str], depth: int) -> None:
    rows = rows_of(segments)
    if len(rows) == len(segments) or len(rows) < 2 or depth > _MAX_DEPTH:
        _add_leaves(rows, columns, grids)
        return
    gutter = _gutter(segments)
    if gutter is not None:
        for band in _bands(segments, gutter):
            if isinstance(band, list):
                _cut(band, columns, grids, depth + 1)
                continue
            left, right = band
            above, beside, below = _side_by_side(left, right)
            if is_grid(*beside):
                for part in (above, below):
                    if part:
                        _cut(part, columns, grids, depth + 1)
                grids.append(rows_text(beside[0] + beside[1]))
            else:
                _cut(left, columns, grids, depth + 1)
                _cut(right, columns, grids, depth + 1)
        return
    parts = _parts(rows)
    if len(parts) == 1:
        _add_leaves(rows, columns, grids)
        return
    for some in parts:
        _cut([s for row in some for s in row], columns, grids, depth + 1)


def _joined(row: list[Segment]) -> Segment:
    if len(row) == 1:
        return row[0]
    first = row[0]
    return Segment(
        first.x0,
        min(s.y0 for s in row),
        max(s.x1 for s in row),
        max(s.y1 for s in row),
        max(s.size for s in row),
        first.bold,
        " ".join(s.text for s in row),
        first.face,
    )


def _add_leaves(rows: list[list[Segment]], columns: list[list[Segment]], grids: list[str]) -> None:
    """Rows as one column of lines; a label with its text hanging beside it is a column of its own."""
    columns.append([])
    for row, below in zip(rows, [*rows[1:], []], strict=True):
        if len(row) > 2 and is_table_row(row):
            grids.append("\t".join(s.text for s in row))
            continue
        if len(row) == 2 and len(below) == 1 and row[1].x0 - row[0].x1 > row[0].size:
            label, text = row
            if abs(below[0].x0 - text.x0) < _HANGING_PT and abs(below[0].x0 - label.x0) > _HANGING_PT:
                columns += [[label], [text]]
                continue
        columns[-1].append(_joined(row))


def _gutter(segments: list[Segment]) -> tuple[float, float] | None:
    """The upright strip that the fewest segments cross, with text on both sides of it, as its left and right edge."""
    left = min(s.x0 for s in segments)
    width = int(max(s.x1 for s in segments) - left) + 2
    if width < 60 or width > 20_000:
        return None
    steps = [0] * (width + 1)
    for s in segments:
        steps[int(s.x0 - left)] += 1
        steps[int(s.x1 - left) + 1] -= 1
    cover = list(accumulate(steps))
    low, high = int(0.1 * width), int(0.9 * width)
    least = min(cover[low:high])
    if least > _CROSSING_SHARE * len(segments):
        return None
    best, start = (0, 0), None
    for x in range(low, high + 1):
        if x < high and cover[x] <= least:
            start = x if start is None else start
        elif start is not None:
            best = max(best, (x - start, start))
            start = None
    gap, start = best[0], best[1]
    em = median(s.size for s in segments)
    if gap < 0.7 * em:
        return None
    strip = (left + start, left + start + gap)
    sides = [s for s in segments if s.x1 <= strip[0] + 1], [s for s in segments if s.x0 >= strip[1] - 1]
    if min(map(len, sides)) < _MIN_SIDE:
        return None
    overlap = min(max(s.y1 for s in side) for side in sides) - max(min(s.y0 for s in side) for side in sides)
    return strip if overlap > 2.5 * em else None


def _bands(
    segments: list[Segment], gutter: tuple[float, float]
) -> list[list[Segment] | tuple[list[Segment], list[Segment]]]:
    """From top to bottom: what crosses the gutter, and between that the two sides of it."""
    left, right = gutter[0] + 1, gutter[1] - 1
    bands: list[list[Segment] | tuple[list[Segment], list[Segment]]] = []
    for s in sorted(segments, key=lambda s: s.y0 + s.y1):
        beside = s.x1 <= left or s.x0 >= right
        if not bands or isinstance(bands[-1], tuple) != beside:
            bands.append(([], []) if beside else [])
        band = bands[-1]
        if isinstance(band, tuple):
            band[s.x0 >= right].append(s)
        else:
            band.append(s)
    return [(b[0] or b[1]) if isinstance(b, tuple) and not (b[0] and b[1]) else b for b in bands]


def _side_by_side(
    left: list[Segment], right: list[Segment]
) -> tuple[list[Segment], tuple[list[Segment], list[Segment]], list[Segment]]:
    """What stands higher than one of two columns begins, what stands side by side, and what is lower than one ends."""
    top = max(min(s.y0 for s in side) for side in (left, right)) - 2
    foot = min(max(s.y1 for s in side) for side in (left, right)) + 2
    both = left + right
    beside = [s for s in left if s.y0 >= top and s.y1 <= foot], [s for s in right if s.y0 >= top and s.y1 <= foot]
    return [s for s in both if s.y0 < top], beside, [s for s in both if s.y0 >= top and s.y1 > foot]


def _parts(rows: list[list[Segment]]) -> list[list[list[Segment]]]:
    """Rows in groups, cut where the blank between two rows is higher than most of a line."""
    parts = [[rows[0]]]
    foot = max(s.y1 for s in rows[0])
    for row in rows[1:]:
        top = min(s.y0 for s in row)
        if top - foot > 0.4 * (row[0].y1 - row[0].y0):
            parts.append([])
        parts[-1].append(row)
        foot = max(foot, *(s.y1 for s in row))
    return parts
