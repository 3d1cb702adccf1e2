"""The table of systems: every measure."""

from __future__ import annotations

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.scores import from_rows
from pipeline_tasks.report.content import DESK
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.run_report import run_report
from pipeline_tasks.report.sections import by_intent, sizes
from pipeline_tasks.report.sections.sizes import n_params
from pipeline_tasks.report.sections.systems import system_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import rows_of
from tests.stores import go, put

TITLE = "Systems on {}, by every measure"


def test_an_evaluation_from_before_has_its_measures_alone(built):
    report = run_report(built[0], "eval/judged")
    (section,) = [s for _, of in report.groups for s in of if s.title == TITLE.format("judged")]
    assert section.table.head == ("system", "ndcg@10", "mrr@10")
    scores = {row[0]: row[1:] for row in section.table.rows}
    assert scores["33m/finetune-0.75"] == ("0.730", "0.365")


def test_one_measure_alone_is_no_table(tmp_path):
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p", "text": "one"}])
    rows = [{"query_id": "q", "intent": "qa", "query": "one", "passage_ids": ["p"], "grades": [1]}]
    put(store, JUDGED_QUERIES, rows, dataset="judged/heldout")
    made = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=("bm25",), measures=("ndcg@10",))
    with lineage(store) as ask:
        assert system_section(ask, read(ask, str(made.ref))) is None


def test_a_model_is_as_large_as_what_it_began_as():
    assert n_params("22m/finetune", "all-mpnet-base-v2") == n_params("all-mpnet-base-v2") > n_params("22m/finetune") > 0
    assert n_params("22m/finetune", "a-folder-0123") == 0, "nobody knows how large it is"


def test_scores_below_nought_are_on_the_canvas():
    """As p-MRR is where a model does the opposite of what it is told."""
    systems = {"all-minilm-l6-v2": -0.4, "all-mpnet-base-v2": -0.3, "bm25": -0.35}
    rows = rows_of({name: (extra, "") for name, extra in systems.items()}, 4)
    read_by = [row | {"scores": [("p-mrr", row["scores"][0][1])]} for row in rows]
    scores = from_rows("eval/mine-instructions@1", read_by)
    known = {name: n for name in systems if (n := n_params(name))}
    for figure in (sizes._draw(scores, "", known, DESK), by_intent._draw(scores, "", DESK)):
        for panel in figure.axes:
            low, high = sorted(panel.get_ylim())
            left, right = panel.get_xlim()
            points = [line.get_xydata() for line in panel.lines if line.get_marker() == "o"]
            assert points and all(left <= x <= right and low <= y <= high for of in points for x, y in of)
