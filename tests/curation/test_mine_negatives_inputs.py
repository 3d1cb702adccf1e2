"""What ``mine_negatives`` takes from its inputs: cosines of positives, known positives, models; and its summary."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from tests.stores import go, put, rejects, rows


def build(
    store: LocalStore, *, positive="p0", votes=(("one", 0.8),), best="one", queries=("q",), own="g", **ranking: object
) -> dict[str, dict]:
    """Passages p0 to p5, one ranking of model ``one``: p0 .9, p1 .7, …; returns triplets by query."""
    texts = {f"p{i}": f"text {i}" for i in range(6)} | {"copy": "text 0"}
    put(store, PASSAGES, [{"passage_id": i, "text": t, "split": "train"} for i, t in texts.items()])
    pairs = [
        {"query_id": name, "query": "the same question", "passage_id": "p5", "positive_id": f"{own}{name}",
         "positive": f"made for {name}", "split": "train"}
        for name in queries
    ]  # fmt: skip
    put(store, PAIRS, pairs, dataset="mtp")
    ranked = {
        "passage_ids": ["p0", "copy", "p1", "p2", "p3", "p4", "p5"],
        "scores": [0.9, 0.9, 0.7, 0.6, 0.5, 0.4, 0.3],
    }
    put(store, RANKINGS, [{"query_id": name} | ranked | ranking for name in queries], dataset="rankings/one")
    labels = [
        {"query_id": name, "query": "the same question", "intent": "qa", "positive_id": positive, "positive": "",
         "source_passage_id": "p5", "split": "train", "best_model": best,
         "votes": [{"model": m, "positive_score": s} for m, s in votes]}
        for name in queries
    ]  # fmt: skip
    put(store, LABELLED, labels)
    build.outcome = go(store, mine_negatives, alpha=1.0, models=("one",))
    return {row["query_id"]: row for row in rows(store, "mtt/1.0")}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path)


def test_the_best_models_vote_is_the_positives_cosine(store):
    row = build(store, votes=(("two", 0.2), ("one", 0.65)))["q"]
    assert row["positive_score"] == pytest.approx(0.65)
    assert row["negative_ids"] == ["p2", "p3", "p4"]


@pytest.mark.parametrize("votes", [(), (("two", 0.9),), (("one", None),)])
def test_without_a_vote_the_ranking_tells(store, votes):
    row = build(store, positive="p1", votes=votes)["q"]
    assert row["positive_score"] == pytest.approx(0.7)
    assert row["negative_ids"] == ["p2", "p3", "p4"]


def test_a_generated_positive_outside_the_top_has_its_cosine_in_the_ranking(store):
    row = build(store, positive="gq", votes=(), positive_score=0.45)["q"]
    assert row["positive"] == "made for q"
    assert row["positive_score"] == pytest.approx(0.45) and row["negative_ids"] == ["p4"]


def test_a_positive_outside_the_top_with_a_vote_has_that_cosine(store):
    row = build(store, positive="gq", votes=(("one", 0.55),))["q"]
    assert row["negative_ids"] == ["p3", "p4"]


def test_a_positive_whose_cosine_nobody_knows_is_a_reject(store):
    assert build(store, positive="gq", votes=()) == {}
    assert rejects(store, "mtt/1.0")["q"]["reason"] == "no_positive_score"


def test_what_answers_a_query_of_the_same_text_is_no_negative(store):
    ids = ["p1", "gq", "gr", "p2", "p5"]
    triplets = build(store, queries=("q", "r"), passage_ids=ids, scores=[0.7, 0.6, 0.5, 0.4, 0.3])
    assert {name: row["negative_ids"] for name, row in triplets.items()} == {"q": ["p1", "p2"], "r": ["p1", "p2"]}


def test_a_copy_of_the_positive_is_no_negative(store):
    row = build(store, votes=(("one", 0.95),))["q"]
    assert row["negative_ids"] == ["p1", "p2", "p3", "p4"]
    assert build.outcome.counters["skipped_duplicate_of_positive"] == 1


def test_a_copy_of_what_answers_a_query_is_no_negative_whether_that_is_ranked_or_not(store):
    """p5, the source, is ranked; what was written for the query is not."""
    build(store)
    copies = {"of-p5": "text 5", "of-gq": "made for q", "other": "no copy"}
    more = [{"passage_id": name, "text": text, "split": "train"} for name, text in copies.items()]
    put(store, PASSAGES, rows(store, "passages"), more)
    ranked = {"passage_ids": ["p0", *copies, "p5"], "scores": [0.9, 0.7, 0.6, 0.5, 0.4]}
    put(store, RANKINGS, [{"query_id": "q"} | ranked], dataset="rankings/one")
    found = go(store, mine_negatives, alpha=1.0, models=("one",)).counters
    assert [row["negative_ids"] for row in rows(store, "mtt/1.0")] == [["other"]]
    assert (found["skipped_duplicate_of_positive"], found["skipped_known_positive"]) == (2, 1)


def test_the_summary_says_how_hard_the_negatives_are_and_what_was_passed_over(store):
    build(store)
    found = build.outcome.counters
    assert found["negatives"] == found["negatives/qa"] == 4 and found["triplets/qa"] == 1
    assert (found["positive_score_min"], found["negative_score_max"]) == (0.8, 0.7)
    assert (found["gap_score_min"], found["gap_score_max"], found["gap_score_p50"]) == (0.1, 0.4, 0.25)
    assert found["gap_score_mean/qa"] == found["gap_score_mean"] == 0.25
    assert found["skipped_too_similar"] == 2 and found["skipped_known_positive/qa"] == 1
    assert found["short_queries"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"best": "two"}, r"no rankings of \['two'\] among \['one'\]"),
        ({"positive": "nobody"}, "positive nobody is no passage here"),
        ({"passage_ids": ["p1", "stranger"], "scores": [0.5, 0.4]}, "ranks stranger"),
        ({"passage_ids": ["p1"], "scores": [0.5, 0.4]}, "another number of passages than scores"),
        ({"query_id": "other"}, "lacks query q"),
    ],
)
def test_inputs_that_do_not_belong_together_are_the_callers_mistake(store, given, message):
    with pytest.raises(InputError, match=message):
        build(store, **given)
    assert not list(store.keys("versions/mtt/1.0"))


def test_ranks_between_which_there_is_none_are_refused():
    with pytest.raises(InputError, match="min_rank=300 is above max_rank=200: no rank would be looked at"):
        mine_negatives.parse({"min_rank": 300, "max_rank": 200})


def test_a_new_alpha_searches_and_encodes_nothing(store):
    build(store)
    before = set(store.keys("versions"))
    outcome = go(store, mine_negatives, alpha=0.8, models=("one",))
    assert not outcome.reused and not {"texts_encoded", "queries_searched"} & set(outcome.counters)
    assert {key.split("/")[1] for key in set(store.keys("versions")) - before} == {"mtt"}


def test_where_the_best_candidates_may_not_be_negatives_all_are_looked_at(store):
    """Two hundred copies of the positive before the first that may."""
    build(store, votes=(("one", 0.95),), queries=("q", "r"))
    copies = [{"passage_id": f"c{i}", "text": "text 0", "split": "train"} for i in range(200)]
    put(store, PASSAGES, rows(store, "passages"), copies)
    ids = ["p0", *(row["passage_id"] for row in copies), "p1"]
    ranked = {"passage_ids": ids, "scores": [0.9 - 0.002 * place for place in range(len(ids))]}
    put(store, RANKINGS, [{"query_id": name} | ranked for name in ("q", "r")], dataset="rankings/one")
    found = go(store, mine_negatives, alpha=1.0, models=("one",), n_negatives=2, max_rank=202)
    assert {row["query_id"]: row["negative_ids"] for row in rows(store, "mtt/1.0")} == {"q": ["p1"], "r": ["p1"]}
    assert found.counters["skipped_duplicate_of_positive"] == 400 and not rejects(store, "mtt/1.0")


def test_labels_without_parts_are_refused(store):
    build(store)
    ref = put(store, LABELLED)
    with pytest.raises(InputError, match=f"{ref} has no parts: "):
        go(store, mine_negatives, alpha=1.0, models=("one",))


def test_a_part_without_labels_gives_no_triplets(store):
    build(store)
    put(store, LABELLED, [])
    go(store, mine_negatives, alpha=1.0, models=("one",))
    assert rows(store, "mtt/1.0") == []
