"""Intervals of a ranking and what is drawn from them, against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.rank_lists import interval_ends, sample
from pipeline_tasks.curation.sample_rank_lists import SampleRankListsParams, sample_rank_lists
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from tests.stores import go, put, rejects, rows

FALLING = np.arange(20, 0, -1, np.float32)


@pytest.mark.parametrize(
    ("n", "m", "strategy", "first", "ends"),
    [
        (20, 4, "fine_to_coarse", 0, [2, 6, 12, 20]),
        (20, 4, "uniform", 0, [5, 10, 15, 20]),
        (30, 4, "doubling", 0, [2, 6, 14, 30]),
        (17, 4, "doubling", 3, [3, 5, 9, 17]),
        (13, 3, "uniform", 3, [3, 8, 13]),
        (1000, 9, "fine_to_coarse", 0, [22, 67, 133, 222, 333, 467, 622, 800, 1000]),
        (10, 9, "fine_to_coarse", 0, [1, 2, 3, 4, 5, 6, 7, 8, 10]),
        (3, 9, "doubling", 0, [1, 2, 3]),
        (2, 4, "uniform", 3, [1, 2]),
        (5, 1, "fine_to_coarse", 3, [5]),
    ],
)
def test_ranks_are_cut_as_the_paper_does(n, m, strategy, first, ends):
    assert interval_ends(np.arange(n, 0, -1, np.float32), m, strategy, "rank", first) == ends


def test_by_default_the_first_interval_is_three_ranks_however_deep_a_ranking_is_read():
    chosen = SampleRankListsParams()
    for k in (200, 1000):
        ends = interval_ends(np.ones(k), chosen.m, chosen.strategy, chosen.by, chosen.first)
        assert (ends[0], ends[-1], len(ends)) == (3, k, 9)
    assert interval_ends(np.ones(1000), 9, "fine_to_coarse")[0] == 22, "what the rule of the paper's example gives"


def test_every_interval_by_rank_has_a_rank_of_its_own():
    for n in range(1, 60):
        for m in range(1, 15):
            for strategy in ("uniform", "fine_to_coarse", "doubling"):
                ends = interval_ends(np.ones(n), m, strategy)
                assert len(ends) == min(m, n) and ends[-1] == n, (n, m, strategy)
                assert all(one < other for one, other in zip([0, *ends], ends, strict=False)), (n, m, strategy)


def test_scores_are_cut_by_their_range():
    scores = np.array([10.0, 9.5, 7.5, 7.0, 2.0, 1.0, 0.0], np.float32)
    assert interval_ends(scores, 4, "uniform", "score") == [3, 4, 4, 7], "down to 7.5, 5, 2.5 and 0"
    assert interval_ends(scores, 4, "fine_to_coarse", "score") == [2, 4, 4, 7], "down to 9, 7, 4 and 0"
    assert interval_ends(scores, 2, "uniform", "score", first=2) == [2, 7]
    assert interval_ends(np.full(3, 5.0), 4, "uniform", "score")[-1] == 3, "all scores equal"


def test_a_list_has_one_rank_of_each_interval_that_has_any():
    ends = interval_ends(FALLING, 4, "fine_to_coarse")
    lists = sample("q1", ends, 300)
    for begin, end, drawn in zip([0, *ends], ends, zip(*lists, strict=True), strict=False):
        assert set(drawn) == set(range(begin, end)), "every rank of an interval is drawn, and no other"
    assert [len(drawn) for drawn in sample("q1", [3, 4, 4, 7], 2)] == [3, 3], "an empty interval gives none"


def test_what_is_drawn_hangs_on_the_query_alone():
    ends = interval_ends(FALLING, 4, "uniform")
    assert sample("q1", ends, 3) == sample("q1", ends, 5)[:3]
    assert sample("q1", ends, 3) != sample("q2", ends, 3)


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Eight passages, of which one is held out; q1 shares a word with six, q2 with one of its split."""
    store = LocalStore(tmp_path)
    passages = [
        {"passage_id": f"p{n}", "doc_id": "d", "text": f"text {n}", "split": "test" if n == 2 else "train"}
        for n in range(8)
    ]
    put(store, PASSAGES, passages)
    pairs = [
        {"query_id": f"q{n}", "query": f"query {n}", "intent": "qa", "split": "train", "positive_id": "p0",
         "positive": "text 0", "passage_id": "p0"}
        for n in (1, 2)
    ]  # fmt: skip
    put(store, PAIRS, pairs, dataset="mtp/extracted")
    scores = {"q1": [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 0.0, 0.0], "q2": [3.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]}
    ranked = [
        {"query_id": name, "passage_ids": [f"p{n}" for n in np.argsort(-np.array(found), kind="stable")],
         "scores": sorted(found, reverse=True)}
        for name, found in scores.items()
    ]  # fmt: skip
    put(store, RANKINGS, *([row] for row in ranked), dataset="rankings/bm25")
    return store


def test_lists_hold_texts_and_scores_and_neither_held_out_passages_nor_strangers(store):
    go(store, sample_rank_lists, k=8, m=5, first=0, n_lists=2)
    one, other = rows(store, "rank_lists")
    assert one["passage_ids"] == ["p0", "p1", "p3", "p4", "p5"], "p2 is held out, p6 and p7 share no word"
    assert one["passages"] == ["text 0", "text 1", "text 3", "text 4", "text 5"]
    assert one["scores"] == [9.0, 8.0, 6.0, 5.0, 4.0]
    assert (one["query"], one["split"], one["query_id"]) == ("query 1", "train", "q1")
    assert one["list_id"] != other["list_id"] and other["passage_ids"] == one["passage_ids"]
    short = rejects(store, "rank_lists")["q2"]
    assert (short["reason"], short["detail"]) == ("short_list", "1 passages of its split share a word with it")


def test_a_list_may_begin_with_the_passage_that_its_query_is_from(store):
    from_p3 = {"query_id": "q1", "query": "query 1", "intent": "qa", "split": "train", "passage_id": "p3"}
    pairs = {"pairs": [str(put(store, PAIRS, [from_p3, from_p3 | {"query_id": "q2"}], dataset="mtp/own"))]}
    go(store, sample_rank_lists, pairs, k=8, m=5, first=0, lead="own", skip=2)
    (one,) = rows(store, "rank_lists")
    assert one["passage_ids"] == ["p3", "p4", "p5"], "p0 and p1 are skipped, p2 is held out"
    assert one["scores"] == [9.0, 5.0, 4.0], "it has the score of the first"
    assert rejects(store, "rank_lists")["q2"]["reason"] == "short_list", "nothing is left to tell it from"
    go(store, sample_rank_lists, pairs, k=8, m=2, first=0, lead="own", skip=0, n_lists=30)
    drawn = [row["passage_ids"] for row in rows(store, "rank_lists")]
    assert {ids[0] for ids in drawn} == {"p3"} and {ids[1] for ids in drawn if len(ids) == 2} >= {
        "p0",
        "p1",
        "p4",
        "p5",
    }


def test_what_is_told_apart_has_no_text_that_is_known_to_answer(store):
    """Copies of the source, the query's written positive, and a copy of what answers another query of its text."""
    texts = {"p0": "same", "p1": "told", "p3": "same", "p4": "other", "p5": "told too", "p6": "written", "p7": "also"}
    put(store, PASSAGES, [{"passage_id": name, "text": text, "split": "train"} for name, text in texts.items()])
    pair = {"query_id": "q1", "query": "query", "split": "train", "passage_id": "p3", "positive_id": "w1"}
    same = pair | {"query_id": "q2", "passage_id": "gone", "positive_id": "w2", "positive": "other"}
    strange = same | {"query_id": "q3", "query": "strange", "positive_id": "w3", "positive": "told"}
    put(store, PAIRS, [pair | {"positive": "written"}, same, strange], dataset="mtp/own")
    ranked = {"passage_ids": ["p0", "p1", "p4", "p6", "p5"], "scores": [9.0, 8.0, 7.0, 6.0, 5.0]}
    put(store, RANKINGS, [{"query_id": "q1"} | ranked], dataset="rankings/bm25")
    go(store, sample_rank_lists, {"pairs": ["mtp/own"]}, k=5, m=9, first=0, lead="own", skip=0)
    (one,) = rows(store, "rank_lists")
    assert one["passages"] == ["same", "told", "told too"] and one["passage_ids"] == ["p3", "p1", "p5"]
    go(store, sample_rank_lists, {"pairs": ["mtp/own"]}, k=5, m=9, first=0)
    assert rows(store, "rank_lists")[0]["passage_ids"] == ranked["passage_ids"], "a ranking's own lead keeps all"


def test_a_short_list_says_what_known_answers_and_skipped_ranks_took_from_it(store):
    go(store, sample_rank_lists, k=8, m=5, first=0, lead="own", skip=200)
    found = {name: row["detail"].partition(", ") for name, row in rejects(store, "rank_lists").items()}
    assert [of[0] for of in found.values()] == [f"{n} passages of its split share a word with it" for n in (5, 1)]
    assert {of[2] for of in found.values()} == {"1 of them known to answer it; skip=200 leaves none of the others"}


def test_a_pair_whose_passage_is_not_here_is_from_what_was_written_for_it(store):
    pair = {"query_id": "q1", "query": "query 1", "intent": "qa", "split": "train", "passage_id": "gone"}
    pair |= {"positive_id": "w1", "positive": "w"}
    pairs = {"pairs": [str(put(store, PAIRS, [pair, {**pair, "query_id": "q2"}], dataset="mtp/own"))]}
    go(store, sample_rank_lists, pairs, k=8, m=2, lead="own", skip=0)
    assert [(row["passage_ids"][0], row["passages"][0]) for row in rows(store, "rank_lists")] == [("w1", "w")] * 2


def test_a_ranking_shorter_than_a_list_is_all_of_it(store):
    """Of four ranks one is held out."""
    go(store, sample_rank_lists, k=2)
    assert [row["passage_ids"] for row in rows(store, "rank_lists")] == [["p0", "p1"]]
    go(store, sample_rank_lists, k=4)
    assert [len(row["passage_ids"]) for row in rows(store, "rank_lists")] == [3]
    for n in range(1, 40):
        ends = interval_ends(np.ones(n), 9, "doubling", "rank", 3)
        assert len(ends) == min(n, 9) and ends[-1] == n and ends[0] == min(3, max(1, n - 8))


def test_no_rankings_give_no_lists(store):
    none = put(store, RANKINGS, [], dataset="rankings/none")
    go(store, sample_rank_lists, {"rankings": [str(none)]})
    assert rows(store, "rank_lists") == []


def test_k_is_how_far_a_ranking_is_read(store):
    go(store, sample_rank_lists, k=2, m=5, first=0)
    assert [row["passage_ids"] for row in rows(store, "rank_lists")] == [["p0", "p1"]]


def test_rankings_of_other_passages_or_pairs_are_refused(store):
    few = put(store, PASSAGES, [{"passage_id": "p0", "text": "text 0", "split": "train"}])
    with pytest.raises(InputError, match="what is no passage here: p1"):
        go(store, sample_rank_lists, {"passages": [str(few)]})
    none = put(store, PAIRS, [], dataset="mtp/other")
    with pytest.raises(InputError, match="no pair: q1"):
        go(store, sample_rank_lists, {"pairs": [str(none)]})


def test_a_query_of_which_nothing_is_left_is_a_reject_by_default_too(store):
    nothing = [{"query_id": "q1", "passage_ids": ["p0", "p1"], "scores": [0.0, 0.0]}]
    put(store, RANKINGS, nothing, dataset="rankings/bm25")
    go(store, sample_rank_lists, k=2)
    assert not rows(store, "rank_lists") and rejects(store, "rank_lists")["q1"]["reason"] == "short_list"
