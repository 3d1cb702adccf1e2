"""What a report says of a run: better than what, and is it luck; what was refused on the way; what it cost."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.answer import comparisons
from pipeline_tasks.report.markdown import markdown
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections.curves import Curve
from tests.core.lineage import toy
from tests.report.made import IMAGE, mine


def table_of(report, title: str) -> list[dict[str, str]]:
    (table,) = [s.table for _, sections in report.groups for s in sections if s.title == title]
    return [dict(zip(table.head, row, strict=True)) for row in table.rows]


def test_the_answer_names_the_start_the_version_before_and_the_best_of_the_others(built):
    report = run_report(built[0])
    start, before, best = report.answer
    assert "better than its start by 0.300" in start and "hardly luck (p < 0.001)" in start
    assert "better than its version before by 0.050" in before and "24 of 24 queries" in before
    assert "better than all-minilm-l6-v2, the best of the others, by 0.100" in best
    assert [number for _, number, _ in report.numbers] == ["0.730", "+0.300", "+0.050", "+0.100"]


def test_a_card_has_the_answer_of_every_set(built):
    store, _, new = built
    judged, both = comparisons(store, new).items()
    assert judged[0].startswith("eval/judged@") and "better than its start by 0.300" in judged[1]
    assert both[0].startswith("eval/both@") and "worse than its version before by 0.100" in both[1]


def test_two_versions_in_one_evaluation_are_told_apart(built):
    start, before = run_report(built[0], "eval/both").answer
    assert "better than its start by 0.100" in start
    assert "worse than its version before by 0.100" in before and "hardly luck" in before


def test_the_first_version_has_none_before_it(built):
    store, old, _ = built
    report = run_report(store, str(old))
    assert "its version before" not in "".join(report.answer) and report.facts[0][1].ref == str(old)


def test_a_report_on_an_evaluation_is_on_its_model(built):
    store, _, model = built
    report = run_report(store, "eval/judged")
    assert (
        report.facts[1][1].ref.startswith("eval/judged@")
        and report.facts[0][1].ref == str(model)
        and report.title == "33m/finetune-0.75"
    )


def test_the_flow_counts_what_was_kept_and_what_was_refused_and_why(built):
    flow = {row["step"]: row for row in table_of(run_report(built[0]), "From pages to triplets")}
    assert list(flow)[0] == "toy_urls" and list(flow)[-1] == "toy_triplets"
    assert (flow["toy_documents"]["seen"], flow["toy_documents"]["kept"]) == ("5", "4")
    assert flow["toy_documents"]["reasons"] == "encrypted 1"
    assert flow["toy_label"]["reasons"] == "no_agreement 1"


def test_negatives_are_measured_against_their_positive(built):
    (build,) = table_of(run_report(built[0]), "Difficulty of the negatives")
    assert build["median"] == "0.556"


def test_what_a_sampler_decided_is_shown_beside_the_curves(built):
    dm, gd = table_of(run_report(built[0]), "How sources were sampled")
    assert (dm["source"], dm["first"], dm["last"], dm["influence"]) == ("dm", "0.500", "0.750", "+0.0200")
    assert (gd["last"], gd["batches"], gd["influence"], gd["deciding"]) == ("0.250", "2", "-0.0100", "25%")


def test_curves_and_costs_are_those_of_the_version(built):
    report = run_report(built[0])
    (curve,) = table_of(report, "Training curves")
    assert (curve["steps"], curve["first loss"], curve["best"], curve["at step"]) == ("8", "1.000", "0.580", "8")
    assert {"toy_urls", "toy_train"} <= {row["step"] for row in table_of(report, "Cost and time")}
    (qa,) = table_of(report, "What a pair cost")
    assert (qa["intent"], qa["answers"], qa["dollars"], qa["dollars a pair"]) == ("qa", "3", "1.50", "0.50000")


def test_of_equal_scores_the_curve_marks_the_later_one_as_training_keeps_it():
    curve = Curve("model/22m/finetune@v", "22m/finetune-0.95", 327, [], [(0, 1.0), (3, 1.0), (6, 0.99)])
    assert curve.chosen == (3, 1.0)


def test_markdown_has_the_answer_and_the_tables_and_no_html(built):
    text = markdown(run_report(built[0]))
    assert text.startswith("# 33m/finetune-0.75\n") and "better than its start" in text
    assert "| 33m/finetune-0.75 | 0.730" in text and "encrypted 1" in text
    assert IMAGE not in text and "<" not in text


def test_what_cannot_be_reported_on_is_said(built, tmp_path):
    with pytest.raises(InputError, match="neither eval/… nor model/…"):
        run_report(built[0], "documents")
    with pytest.raises(InputError, match="run evaluate_retriever first"):
        run_report(LocalStore(tmp_path))


def test_a_model_that_was_not_evaluated_is_still_told_of(tmp_path):
    store = LocalStore(tmp_path)
    mine(store, "a")
    toy.make(store, toy.toy_model)
    report = run_report(store)
    assert "was not evaluated yet" in report.answer[0]
    assert table_of(report, "From pages to triplets")
