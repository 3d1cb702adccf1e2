"""Segments of one baseline: rows, and whether a row looks like cells of a table or like columns of prose."""

from __future__ import annotations

from pipeline_tasks.corpus.pdf.model import Segment

PROSE_CHARS = 20
"""Lines of prose in a narrow column are at least this long, cells of a table mostly shorter."""
_SAME_ROW = 0.5


def is_table_row(row: list[Segment]) -> bool:
    """Whether segments of one baseline are cells: three or more short ones with wide gaps between them."""
    gaps = sum(b.x0 - a.x1 > 1.5 * a.size for a, b in zip(row, row[1:], strict=False))
    return gaps >= 2 and sum(len(s.text) for s in row) < PROSE_CHARS * len(row)


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


def is_prose_row(cells: list[list[Segment]]) -> bool:
    """Whether cells side by side are long lines of about one length, as in columns of prose drawn line by line."""
    sizes = [max(len(s.text) for s in cell) for cell in cells]
    return len(cells) <= 3 and sum(sizes) >= PROSE_CHARS * len(cells) and min(sizes) > 0.55 * max(sizes)
