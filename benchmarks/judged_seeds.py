"""Queries with the passages that were judged for them: does an order put a better one first than the seed?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from judged_sets import JudgedSet


class Query(NamedTuple):
    """A query, the texts that were judged for it, their grades, and where among them its seed is."""

    text: str
    intent: str
    candidates: list[str]
    grades: list[int]
    seed: int


def judged(data: JudgedSet, n: int, split: str = "test") -> list[Query]:
    """The first ``n`` queries of a split whose seed was judged and is one of several passages."""
    found = []
    for query in data.queries:
        names = sorted(query.judged)
        if query.split == split and query.written_for in names and len(names) > 1:
            texts, grades = [data.passages[name] for name in names], [query.judged[name] for name in names]
            found.append(Query(query.text, query.intent, texts, grades, names.index(query.written_for)))
    return found[:n]


def compare_seeds(queries: Sequence[Query], chosen: Sequence[int]) -> dict[str, float]:
    """What an order did: its first passages against the seeds.

    ``lesser`` counts the seeds for which a better passage was judged: ``bettered`` is the share of these that gave way
    to a higher grade. ``spoiled`` is the share that gave way to a lower one, of seeds that have a grade to lose, and
    ``changed`` of all. ``pairs_a_right_one``: passages that were compared for one that is better; 0 where none is.
    """
    firsts = [(q.grades[place], q.grades[q.seed]) for q, place in zip(queries, chosen, strict=True)]
    better, lesser = sum(first > seed for first, seed in firsts), sum(q.grades[q.seed] < max(q.grades) for q in queries)
    return {
        "bettered": better / max(1, lesser),
        "spoiled": sum(first < seed for first, seed in firsts) / max(1, sum(seed > 0 for _, seed in firsts)),
        "changed": sum(place != q.seed for q, place in zip(queries, chosen, strict=True)) / max(1, len(queries)),
        "lesser": lesser,
        "pairs_a_right_one": sum(len(q.candidates) for q in queries) / better if better else 0.0,
    }
