"""Which source helped which target, by the decisions of a sampler."""

from __future__ import annotations

import pytest

from pipeline_tasks.report.content import DESK, PHONE
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections.influences import Helped, drawn

TITLE = "Which source helps which target"


def test_a_training_says_what_each_source_did_for_each_target(built):
    (section,) = [s for _, of in run_report(built[0]).groups for s in of if s.title == TITLE]
    assert [row[:5] for row in section.table.rows] == [
        ("33m/finetune", "dm", "dev", "+0.02000", "1"), ("33m/finetune", "gd", "dev", "-0.01000", "1")
    ]  # fmt: skip


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_more_the_larger_and_what_harms_is_empty(width):
    mean = {("a", "x"): 0.04, ("a", "y"): 0.01, ("b", "x"): -0.04, ("b", "y"): 0.0}
    figure = drawn([Helped("model/22m/pretrain@v", mean, dict.fromkeys(mean, 1))], width)
    (panel,) = figure.axes
    dots = {(int(line.get_xdata()[0]), int(line.get_ydata()[0])): line for line in panel.lines}
    sizes = {at: line.get_markersize() for at, line in dots.items()}
    assert sizes[0, 0] == sizes[0, 1] == 2 * sizes[1, 0] > sizes[1, 1]
    assert {at for at, line in dots.items() if line.get_markerfacecolor() == "none"} == {(0, 1), (1, 1)}
    assert [text.get_text() for text in panel.get_yticklabels()] == ["a", "b"], "what helped most is on top"
    assert panel.get_window_extent().x1 < width
