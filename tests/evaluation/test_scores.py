"""What a trained system is compared with."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.evaluation.scores import from_rows

TRAINED = "model/22m/finetune@1"


@pytest.mark.parametrize(
    ("began", "untrained", "start"),
    [
        ("all-minilm-l6-v2", "all-minilm-l6-v2", "22m/untrained"),
        ("all-mpnet-base-v2", "all-mpnet-base-v2", "22m/untrained"),
        ("all-mpnet-base-v2", "all-minilm-l6-v2", "all-mpnet-base-v2"),
        ("bge-small-en-v1.5", "all-minilm-l6-v2", ""),
        ("", "", "22m/untrained"),
    ],
)
def test_the_start_is_what_the_model_began_as_and_not_what_its_size_begins_as(began, untrained, start):
    systems = {"22m/untrained": "", "all-mpnet-base-v2": "", "22m/finetune": TRAINED}
    rows = [
        {"system": name, "model_version": ref, "query_id": "q", "intent": "qa", "scores": [("ndcg@10", 0.5)]}
        for name, ref in systems.items()
    ]
    starts = {TRAINED: began} if began else {}
    assert from_rows("eval/mine@1", rows, starts=starts, untrained=untrained).start_of("22m/finetune") == start


def test_a_fusion_with_a_trained_version_is_none_of_the_others_by_whichever_name():
    fusions = (f"rrf(bm25,{member})" for member in ("22m/finetune-0.95", "model/22m/finetune", TRAINED))
    systems = dict.fromkeys(["bm25", *fusions], "") | {"22m/finetune-0.95": TRAINED}
    rows = [
        {"system": name, "model_version": ref, "query_id": "q", "intent": "qa"}
        | {"scores": [("ndcg@10", 0.1 if name == "bm25" else 0.5)]}
        for name, ref in systems.items()
    ]
    assert from_rows("eval/mine@1", rows).best_other("22m/finetune-0.95") == "bm25"


@pytest.mark.parametrize(
    ("there", "nearest"),
    [
        (["map@10", "ndcg@5", "ndcg@10"], "ndcg@10"),
        (["ndcg@100", "ndcg@20", "ndcg@5"], "ndcg@5"),
        (["mrr@10", "map@100"], "mrr@10"),
        (["ndcg@5", "map@1000", "ndcg@10", "p-mrr"], "p-mrr"),
    ],
)
def test_what_comes_nearest_to_ndcg_at_10_is_read_or_what_a_set_is_for(there, nearest):
    assert scored("eval/mine@1", {name: 0.5 for name in there}).metric == nearest


def test_scores_by_two_metrics_are_not_compared():
    old, new = scored("eval/mine@1", {"ndcg@5": 0.5}), scored("eval/mine@2", {"ndcg@5": 0.5, "ndcg@10": 0.6})
    with pytest.raises(InputError, match="eval/mine@2 is read by ndcg@10 and eval/mine@1 by ndcg@5: read both by one"):
        new.against("m", "m", old)


def test_no_queries_are_none_and_not_all():
    found = scored("eval/mine@1", {"ndcg@10": 0.5})
    assert found.values("m").tolist() == found.values("m", ["q"]).tolist() == [0.5]
    assert found.values("m", []).tolist() == []


@pytest.mark.parametrize(("metric", "floor"), [("ndcg@10", 0.0), ("p-mrr", -1.0)])
def test_an_interval_ends_where_scores_do(metric, floor):
    values = {"qa": [1.0, floor, 1.0, floor], "nli": [1.0], "sts": [floor]}
    rows = [
        {"system": "m", "model_version": "", "query_id": f"{intent}{n}", "intent": intent, "scores": [(metric, value)]}
        for intent, those in values.items()
        for n, value in enumerate(those)
    ]
    found = from_rows("eval/mine@1", rows)
    both = from_rows("eval/mine@1", [row for row in rows if row["intent"] != "sts"])
    lowest = from_rows("eval/mine@1", [row for row in rows if row["intent"] != "nli"])
    assert both.score("m").high == 1.0 and lowest.score("m").low == floor
    assert found.mean("m") == found.score("m").mean
    assert floor < found.score("m").low < found.score("m").mean < found.score("m").high < 1.0


def scored(ref: str, scores: dict[str, float]):
    rows = [{"system": "m", "model_version": "", "query_id": "q", "intent": "qa", "scores": [*scores.items()]}]
    return from_rows(ref, rows)
