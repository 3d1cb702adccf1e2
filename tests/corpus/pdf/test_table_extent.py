from __future__ import annotations

from pipeline_tasks.corpus.pdf.model import Segment
from pipeline_tasks.corpus.pdf.table_extent import whole_tables

COLUMNS = ((72.0, 90.0), (110.0, 150.0), (200.0, 470.0))


def table(first: int, last: int) -> list[Segment]:
    """Rows of three cells, 16 points apart."""
    return [
        Segment(left, 16.0 * row, right, 16.0 * row + 11, 10.0, False, f"{row}{column}")
        for row in range(first, last)
        for column, (left, right) in enumerate(COLUMNS)
    ]


def test_rows_between_two_tables_are_in_one_of_them():
    above, between, below = table(6, 9), table(9, 12), table(12, 15)
    found = whole_tables([above, below], between)
    assert len(found) == 2
    assert sorted(s.text for group in found for s in group) == sorted(s.text for s in above + between + below)
