from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.curation.mutual_agreement import Ranking, agreed_positive, mutual_agreement
from pipeline_tasks.datasets import PAIRS, RANKINGS
from tests.stores import go, put, rejects, rows

MODELS = ("one", "two")


def rankings(*orders: str) -> list[Ranking]:
    return [Ranking(f"m{i}", order.split(), [1.0] * len(order.split())) for i, order in enumerate(orders)]


@pytest.mark.parametrize(
    ("orders", "top_n", "positive"),
    [
        (("a b c", "a c b", "a b c"), 1, "a"),
        (("a b c", "b a c", "a b c"), 1, None),
        (("a b c", "b a c", "a b c"), 2, "a"),
        (("a b c", "b a c", "b c a"), 2, "b"),
        (("a b c", "c b a", "c a b"), 2, None),
        (("a b c", "c b a", "c a b"), 3, "a"),
        (("a b c", "d c b", "c e f"), 3, "c"),
        (("a b c", "d e f", "a b c"), 3, None),
        (("a b", "b a", "b a"), 5, "a"),
        (("b a c",), 1, "b"),
        (("", "a", "a"), 3, None),
    ],
)
def test_agreed_positive_is_the_best_rankings_first_shared_passage(orders, top_n, positive):
    assert agreed_positive(rankings(*orders), top_n) == positive


def test_a_query_is_labelled_or_refused_for_its_own_reason(store):
    outcome = go(store, mutual_agreement, models=MODELS, top_n=2)
    labelled = {row["query_id"]: row for row in rows(store, "labelled")}
    assert {query: row["positive_id"] for query, row in labelled.items()} == {
        "q-t1": "t1",
        "q-t2": "g-t2",
        "q-t4": "t4",
        "q-d1": "d1",
    }
    refused = rejects(store, "labelled")
    assert {query: row["reason"] for query, row in refused.items()} == {
        "q-h1": "held_out",
        "q-t3": "positive_held_out",
        "q-d2": "no_agreement",
    }
    assert refused["q-t3"]["detail"] == "h3 is in split test"
    assert refused["q-d2"]["detail"] == "one: t2 t1; two: d3 h3"
    assert outcome.counters["rows_out"] + outcome.counters["rows_rejected"] == 7


def test_a_label_tells_what_each_model_voted(store):
    go(store, mutual_agreement, models=MODELS, top_n=2)
    row = next(row for row in rows(store, "labelled") if row["query_id"] == "q-t2")
    assert (row["positive"], row["source_passage_id"], row["split"]) == ("text for t2", "t2", "train")
    assert (row["query"], row["intent"], row["best_model"]) == ("about t2?", "qa", "one")
    assert [vote["model"] for vote in row["votes"]] == ["one", "two"]
    for vote in row["votes"]:
        assert (vote["passage_ids"], vote["positive_rank"]) == (["g-t2", "t3"], 1)
        assert vote["positive_score"] == pytest.approx(0.9)


def test_a_passage_of_another_split_is_no_positive_even_where_all_agree(store):
    """Asked for the top 4, the models agree on t2 for a development query: a training page is no dev positive."""
    go(store, mutual_agreement, models=("one",), top_n=4)
    assert rejects(store, "labelled")["q-d2"]["reason"] == "positive_held_out"


def test_rankings_that_lack_a_model_or_a_query_are_the_callers_mistake(store):
    with pytest.raises(InputError, match="two"):
        go(store, mutual_agreement, {"rankings": ["rankings/one"]}, models=MODELS)
    put(store, RANKINGS, [], dataset="rankings/two")
    with pytest.raises(InputError, match="rankings/two"):
        go(store, mutual_agreement, models=MODELS)


def test_a_general_domain_query_may_have_its_own_positive(store):
    pair = {"query_id": "q-x", "passage_id": "x", "intent": "qa", "query": "about x?", "positive_id": "g-x"}
    put(store, PAIRS, [pair | {"positive": "text for x", "split": "train", "origin": "gd"}], dataset="mtp")
    for model in MODELS:
        row = {"query_id": "q-x", "passage_ids": ["g-x", "t1"], "scores": [0.9, 0.5]}
        put(store, RANKINGS, [row], dataset=f"rankings/{model}")
    go(store, mutual_agreement, models=MODELS)
    assert [(row["positive_id"], row["positive"]) for row in rows(store, "labelled")] == [("g-x", "text for x")]
