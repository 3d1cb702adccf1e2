"""What a step computes never changes without a word on what it made before."""

from pathlib import Path

from pipeline_tasks.core.codelock.lock import LOCK, current, read, unsettled

PACKAGE = Path(__file__).parents[2] / "pipeline_tasks"
BY_VALUE = ("domains", "models/data")
"""Folders of package data whose content steps put into their ids."""
PAGES = ("ask/static", "report/page", "web/static")
"""Folders of what browsers are given, which no step reads."""


def test_every_change_of_what_a_step_runs_raises_its_version_or_says_that_its_output_is_the_same():
    now, reached = current()
    left = unsettled(read(), now, reached)
    assert not left, "\n".join(map(str, left))
    assert LOCK.read_text("utf-8") == str(now), "steps.lock is behind the code: run `foundry lock`"


def test_package_data_is_only_where_ids_hold_it_by_value():
    data = {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert data
    assert [str(path) for path in sorted(data) if not str(path).startswith(BY_VALUE + PAGES)] == []
