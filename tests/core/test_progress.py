from __future__ import annotations

import logging

from pipeline_tasks.core import progress
from pipeline_tasks.core.progress import Meter, meter


def test_a_line_tells_done_rate_and_time_left():
    counted = Meter("embed", 100, "rows")
    assert counted.line(0) == "embed: 0/100 rows, 0.0 rows/s, time left unknown"
    counted.advance(20)
    counted.advance(5)
    assert counted.line(5) == "embed: 25/100 rows, 5.0 rows/s, 15 s left"


def test_a_line_ends_with_how_it_goes_where_that_is_told():
    counted = Meter("pretrain", 4, "steps")
    counted.advance(2, "loss 0.5")
    assert counted.line(1) == "pretrain: 2/4 steps, 2.0 steps/s, 1 s left; loss 0.5"
    counted.advance()
    assert counted.line(1).endswith("left")


def test_a_bar_learns_how_much_there_is_and_tells_how_it_goes(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with meter("pretrain", 0, "steps") as counted:
        counted.total = 4
        counted.advance(1, "loss 0.5")
        (task,) = progress._bars().tasks
        assert (task.total, task.completed, task.description) == (4, 1, "pretrain: loss 0.5")


def test_without_a_terminal_a_line_is_logged_now_and_then(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.0)
    with caplog.at_level(logging.INFO, logger=progress.__name__), meter("crawl", 2, "urls") as counted:
        counted.advance()
        counted.advance()
    assert [r.getMessage().split(",")[0] for r in caplog.records] == ["crawl: 1/2 urls", "crawl: 2/2 urls"]


def test_a_terminal_gets_a_bar_that_may_nest(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with meter("outer", 2, "parts") as outer, meter("inner", 3, "rows") as inner:
        outer.advance()
        inner.advance(3)
        assert [task.completed for task in progress._bars().tasks] == [1, 3]
    assert progress._bars().tasks == []


def test_what_was_done_before_says_nothing_of_the_rate():
    counted = Meter("finetune", 1000, "steps")
    counted.begin_at(900)
    counted.advance()
    assert counted.line(10) == "finetune: 901/1000 steps, 0.1 steps/s, 990 s left"
    assert counted.line(26) == "finetune: 901/1000 steps, 0.038 steps/s, 2574 s left"
