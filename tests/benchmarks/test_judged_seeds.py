"""What the benchmark of relabelling counts where people judged."""

from __future__ import annotations

from benchmarks.judged_seeds import Query, compare_seeds

LESSER = Query("q", "qa", ["a", "b", "c"], [2, 1, 0], 1)
BEST = Query("q", "qa", ["a", "b"], [2, 0], 0)


def test_a_seed_is_bettered_where_a_higher_grade_comes_first_and_spoiled_where_a_lower_one_does():
    assert compare_seeds([LESSER, BEST], [0, 0]) == {
        "bettered": 1.0, "spoiled": 0.0, "changed": 0.5, "lesser": 1, "pairs_a_right_one": 5.0,
    }  # fmt: skip
    assert compare_seeds([LESSER, BEST], [2, 1]) == {
        "bettered": 0.0, "spoiled": 1.0, "changed": 1.0, "lesser": 1, "pairs_a_right_one": 0.0,
    }  # fmt: skip


def test_another_passage_of_the_same_grade_is_a_change_and_no_more():
    even = Query("q", "qa", ["a", "b"], [2, 2], 0)
    assert compare_seeds([even], [1]) == dict.fromkeys(("bettered", "spoiled", "lesser", "pairs_a_right_one"), 0) | {
        "changed": 1.0
    }
