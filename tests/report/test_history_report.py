"""Versions over time: each one against the one before, on the queries that both were asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import EVALUATIONS, PASSAGES
from pipeline_tasks.evaluation.scores import Score
from pipeline_tasks.report.content import DESK
from pipeline_tasks.report.history_report import _draw, history_report
from pipeline_tasks.report.luck import ELSEWHERE
from pipeline_tasks.report.run_report import run_report
from tests.report import made
from tests.stores import put


def test_every_version_is_compared_with_the_one_before(built):
    store, old, new = built
    report = history_report(store)
    assert "On both" in report.answer[0] and "On judged: 33m/finetune-0.75 is better than" in report.answer[1]
    _, (_, (section,)) = report.groups
    rows = [(row[6].ref, row[4]) for row in section.table.rows]
    assert rows == [(str(old), ""), (str(new), "+0.050")]
    assert ELSEWHERE not in " ".join(report.answer), "both searched the same passages"


def test_many_versions_are_drawn_with_few_marks_below():
    score = Score(0.5, 0.4, 0.6, 9)
    one = SimpleNamespace(score=score, scores=SimpleNamespace(start_of=lambda system: ""), system="22m/finetune")
    drawing = _draw({"22m/finetune": [one] * 60}, DESK)
    drawing.canvas.draw()
    (panel,) = drawing.axes
    assert 2 < len(panel.get_xticklabels()) <= 8


def test_versions_that_searched_other_passages_are_told_so(tmp_path, monkeypatch):
    store, sizes = LocalStore(tmp_path), [3, 2]

    def grown(store: LocalStore) -> Ref:
        passages = [{"passage_id": f"p{n}", "text": "a passage"} for n in range(sizes.pop())]
        return put(store, PASSAGES, passages, dataset="chunks")

    monkeypatch.setattr(made, "corpus", grown)
    for gain, addresses in ((0.1, ("a",)), (0.2, ("a", "twin"))):
        made.evaluate(store, made.train(store, *addresses), gain)
    report = history_report(store)
    assert f"is better than its version before{ELSEWHERE} by 0.100" in report.answer[0]
    ((_, (section,)),) = report.groups
    assert section.table.rows[-1][5].endswith(f";{ELSEWHERE}")
    assert f"its version before{ELSEWHERE}" in " ".join(run_report(store).answer)


def test_an_evaluation_by_other_measures_does_not_hide_the_version_before(tmp_path):
    store = LocalStore(tmp_path)
    old = made.train(store, "a")
    made.evaluate(store, old, 0.1)
    other = [row | {"scores": [("map@100", 0.5)]} for row in made.rows_of({"33m/finetune-0.75": (0.1, str(old))}, 4)]
    put(store, EVALUATIONS, other, dataset="eval/judged", models=old)
    made.evaluate(store, made.train(store, "a", "twin"), 0.2)
    assert "its version before" in " ".join(run_report(store).answer)


def test_without_an_evaluation_there_is_no_history(tmp_path):
    with pytest.raises(InputError, match="no trained model was evaluated"):
        history_report(LocalStore(tmp_path))
