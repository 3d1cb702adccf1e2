from __future__ import annotations

from math import log2

import pytest

from pipeline_tasks.datasets import EVALUATIONS
from pipeline_tasks.evaluation.report import AVERAGE, score_rows

RANKED = [["a", "b", "c"], ["x", "y", "a"], ["b", "a", "x"], ["x", "y", "z"]]
RELEVANT = ["a", "a", "a", "a"]
INTENTS = ["qa", "qa", "nli", "qa"]


def scored(k: int) -> dict[tuple[str, str], tuple[float, int]]:
    judged = [{passage: 1} for passage in RELEVANT]
    made = score_rows("33m/finetune", "model/33m/finetune@v", RANKED, judged, INTENTS, k)
    assert EVALUATIONS.table(made).num_rows == len({row["evaluation_id"] for row in made}) == len(made)
    return {(row["metric"], row["intent"]): (row["score"], row["n_queries"]) for row in made}


def test_scores_by_hand():
    """Ranks of the relevant passage: 1, 3, none for qa; 2 for nli."""
    by_hand = {
        "ndcg@3": {"qa": (1 + 1 / log2(4) + 0) / 3, "nli": 1 / log2(3)},
        "mrr@3": {"qa": (1 + 1 / 3 + 0) / 3, "nli": 1 / 2},
        "recall@3": {"qa": 2 / 3, "nli": 1.0},
    }
    found = scored(3)
    for metric, scores in by_hand.items():
        assert found[metric, "qa"] == (pytest.approx(scores["qa"]), 3)
        assert found[metric, "nli"] == (pytest.approx(scores["nli"]), 1)
        assert found[metric, AVERAGE] == (pytest.approx((scores["qa"] + scores["nli"]) / 2), 4)
    assert len(found) == 9


def test_what_is_behind_the_cut_off_does_not_count():
    found = scored(1)
    for metric in ("ndcg@1", "mrr@1", "recall@1"):
        assert found[metric, "qa"] == (pytest.approx(1 / 3), 3)
        assert found[metric, "nli"] == (0.0, 1)
        assert found[metric, AVERAGE] == (pytest.approx(1 / 6), 4)


def test_rows_name_the_system_and_its_version():
    (row, *_) = score_rows("bm25", "", [["a"]], [{"a": 1}], ["qa"], 10)
    assert row == {
        "evaluation_id": "bm25/qa/ndcg@10",
        "system": "bm25",
        "model_version": "",
        "intent": "qa",
        "metric": "ndcg@10",
        "score": 1.0,
        "n_queries": 1,
    }
