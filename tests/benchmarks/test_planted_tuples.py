"""Tuples by rules: what they claim is true of the words of their passages, and parts of a set share none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOPICS = ("harbour", "orchard", "quarry", "glacier")
FACETS = tuple(f"facet{one}{other}" for one in "abcdef" for other in "ghijkl")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def data():
    """Forty queries with three relevant passages each, every one of which speaks of two things of its own."""
    from judged_sets import JudgedSet, Query

    passages, queries = {}, []
    for number in range(40):
        judged = {}
        for at in range(3):
            own = [FACETS[(5 * number + 2 * at + n) % len(FACETS)] for n in (0, 1)]
            passages[f"p{number}-{at}"] = f"{TOPICS[number % 4]} story{'abcdefgh'[number % 8] * 3} {' '.join(own)}"
            judged[f"p{number}-{at}"] = 1
        queries.append(Query(f"which {TOPICS[number % 4]} number {number}", "qa", "test", judged))
    return JudgedSet(passages, queries, [])


def meets(instruction: str, text: str) -> bool:
    """Whether a text is as an instruction wants it, read off the instruction's own words."""
    named = re.findall("facet[a-z]+|story[a-h]+|" + "|".join(TOPICS), instruction.lower())
    denials = re.findall(
        r"(?i)\b(no|not|never|nothing|unless|ignore|leave out|without|missing|anything but)\b", instruction
    )
    return any(word in text for word in named) != (len(denials) % 2 == 1)


def test_only_the_passages_that_an_instruction_wants_are_as_it_wants_them(data):
    from planted_tuples import KINDS, Words, tuples_of

    found = tuples_of(data.queries, data, Words(data), 60)
    assert {one["kind"] for one in found} == set(KINDS) and len(found) == 60
    relevant = {q.text: {data.passages[name] for name in q.judged} for q in data.queries}
    for one in found:
        told, poisoned = (
            [meets(one[name], one[text]) for text in ("positive", "instruction_passage", "query_passage")]
            for name in ("instruction", "poisoned_instruction")
        )
        assert told == [True, False, True] and poisoned[:2] == [False, True], one
        assert {one["positive"], one["instruction_passage"]} <= relevant[one["query"]]
        assert one["query_passage"] in relevant[one["poisoned_query"]] - relevant[one["query"]]


def test_of_two_words_either_may_be_the_one_that_tells(data):
    from planted_tuples import Words, tuples_of

    found = tuples_of(data.queries, data, Words(data), 60, kinds=("either",))
    told = [re.findall("facet[a-z]+|story[a-h]+", one["instruction"].lower()) for one in found]
    places = [words.index(one["words"][0]) for words, one in zip(told, found, strict=True)]
    assert len(places) > 20 and min(places.count(0), places.count(1)) > 5


def test_the_wordings_of_the_evaluation_are_left_out_unless_they_are_asked_for(data):
    from planted_tuples import Words, tuples_of

    def told(wordings: str) -> list[str]:
        return [one["instruction"] for one in tuples_of(data.queries, data, Words(data), 60, wordings=wordings)]

    def known(text: str) -> bool:
        return text.startswith(("Passages that answer the query", "Of the passages that answer"))

    assert not any(map(known, told("own"))) and all(map(known, told("evaluation")))
    assert not any(re.search(r"(?i)passage|mention|relevant", text) for text in told("own"))
    assert len({re.sub("facet[a-z]+", "", text) for text in told("own")}) > 50


def test_a_wording_says_what_it_is_to_say_in_every_frame():
    from wordings import UNWANTED, WANTED, worded

    for frame in (*WANTED, *UNWANTED):
        assert meets(frame.format(things="texts", say="name", what="harbour"), "harbour") == (frame in WANTED)
    told = {worded(["harbour"], wanted, str(n)) for wanted in (True, False) for n in range(500)}
    assert len(told) > 900 and {meets(text, "orchard") for text in told} == {True, False}
    assert all(text.lower().count("harbour") == 1 and not text[0].islower() for text in told)


def test_queries_that_share_a_relevant_passage_are_in_one_part(data):
    from judged_sets import JudgedSet, Query
    from planted_tuples import divided

    linked = [Query(f"{q.text} again", "qa", "test", dict([*q.judged.items()][:2])) for q in data.queries[::2]]
    parts = divided(JudgedSet(data.passages, [*data.queries, *linked], []))
    assert sum(map(len, parts.values())) == 60 and all(parts.values())
    of_passage: dict[str, set[str]] = {}
    for part, queries in parts.items():
        for query in queries:
            for name in query.judged:
                of_passage.setdefault(name, set()).add(part)
    assert all(len(found) == 1 for found in of_passage.values())


def test_values_of_seeds_are_averaged_by_query_and_what_was_saved_is_read(tmp_path):
    from instructed_sets import Values, against

    empty = np.nan
    none = {"also": np.array([empty, 0.6])}
    first = Values(np.array([0.5, 0.7]), {"without": np.array([0.2, empty]), "only": np.array([0.4, empty]), **none})
    second = Values(np.array([0.7, 0.9]), {"without": np.array([0.4, empty]), "only": np.array([0.8, empty]), **none})
    mean = Values.mean([first, second])
    assert mean.plain.tolist() == pytest.approx([0.6, 0.8]) and mean.p_mrr.tolist() == pytest.approx([0.45, 0.6])
    assert mean.n_instructions == 3
    gain = against(second, first)
    assert (gain["p_mrr"].n, gain["ndcg@10"].n) == (2, 2) and gain["p_mrr"].gain == pytest.approx(0.15)
    mean.save(tmp_path / "deep" / "values.json")
    again = Values.read(tmp_path / "deep" / "values.json")
    assert again.summary() == mean.summary()
