"""The table of systems: every measure, and how embedders lay out queries and passages."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.report.evaluations import geometries, read
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections.systems import system_section
from pipeline_tasks.report.subject import lineage
from tests import shapes
from tests.stores import go, put

TITLE = "Systems on {}, by every measure"


def test_an_embedder_has_alignment_and_uniformity_beside_its_scores_and_bm25_has_none(tmp_path):
    store = LocalStore(tmp_path / "store")
    words = shapes.TOPICS[:4]
    put(store, PASSAGES, [{"passage_id": f"p{word}", "text": f"{word} wa"} for word in words])
    judged = {"intent": "qa", "grades": [1]}
    rows = [judged | {"query_id": word, "query": f"{word} wa", "passage_ids": [f"p{word}"]} for word in words]
    put(store, JUDGED_QUERIES, rows, dataset="judged/heldout")
    own = str(shapes.make("bert", tmp_path / "mine"))
    made = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=("bm25", own, f"rrf(bm25,{own})"))
    alignment, share = (made.counters[f"{name}/{own}"] for name in ("alignment", "normalised_alignment"))
    assert (alignment, share) == pytest.approx((0, 1), abs=1e-6), "equal texts"
    with lineage(store) as ask:
        found = geometries(ask, str(made.ref))
        section = system_section(ask, read(ask, str(made.ref)))
    assert found.keys() == {own} and found[own].uniformity > 0
    (head, table) = section.table.head, {row[0]: row[1:] for row in section.table.rows}
    assert head[-3:] == ("alignment", "over nearest", "uniformity") and head[1] == "ndcg@10"
    assert table[own][-3:] == ("0.000", "1.000", f"{found[own].uniformity:.3f}")
    assert table["bm25"][-3:] == table[f"rrf(bm25,{own})"][-3:] == ("", "", "")
    assert {len(row) for row in section.table.rows} == {len(head)}
    again = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=(own,), measures=("hit@4",))
    assert again.counters[f"uniformity/{own}"] == made.counters[f"uniformity/{own}"], "what is remembered is told again"


def test_an_evaluation_from_before_has_its_measures_alone(built):
    report = run_report(built[0], "eval/judged")
    (section,) = [s for _, of in report.groups for s in of if s.title == TITLE.format("judged")]
    assert section.table.head == ("system", "ndcg@10", "mrr@10")
    scores = {row[0]: row[1:] for row in section.table.rows}
    assert scores["33m/finetune-0.75"] == ("0.730", "0.365")
    assert len(section.words) == 1, "nothing is said of what is not known"


def test_one_measure_alone_is_no_table(tmp_path):
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p", "text": "one"}])
    rows = [{"query_id": "q", "intent": "qa", "query": "one", "passage_ids": ["p"], "grades": [1]}]
    put(store, JUDGED_QUERIES, rows, dataset="judged/heldout")
    made = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=("bm25",), measures=("ndcg@10",))
    with lineage(store) as ask:
        assert system_section(ask, read(ask, str(made.ref))) is None
