"""What the benchmark of relabelling plants is so."""

from __future__ import annotations

from benchmarks.planted_notices import compare_seeds, planted


def test_three_of_twenty_seeds_leave_open_what_is_asked():
    queries = planted(40, 8, seed=1)
    assert len({query.text for query in queries}) == 40 and {len(query.candidates) for query in queries} == {8}
    assert sum(query.seed != query.best for query in queries) == 6
    assert all(len(set(query.candidates)) == 8 for query in queries)


def test_shares_are_of_bad_seeds_and_of_good_ones():
    queries = planted(20, 8, seed=1)
    assert compare_seeds(queries, [q.best for q in queries]) == {"found": 1.0, "spoiled": 0.0, "changed": 0.15}
    assert compare_seeds(queries, [q.seed for q in queries]) == {"found": 0.0, "spoiled": 0.0, "changed": 0.0}
