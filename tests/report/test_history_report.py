"""Versions over time: each one against the one before, on the queries that both were asked."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.history_report import history_report


def test_every_version_is_compared_with_the_one_before(built):
    store, old, new = built
    report = history_report(store)
    assert "On both" in report.answer[0] and "On judged: 33m/finetune-0.75 is better than" in report.answer[1]
    _, (_, (section,)) = report.groups
    rows = [(row[6].ref, row[4]) for row in section.table.rows]
    assert rows == [(str(old), ""), (str(new), "+0.050")]


def test_without_an_evaluation_there_is_no_history(tmp_path):
    with pytest.raises(InputError, match="no trained model was evaluated"):
        history_report(LocalStore(tmp_path))
