"""Queries in a passage's own words: what each source gives, what is no query, and that nothing is left to chance."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.extract_queries import extract_queries
from pipeline_tasks.synthesis.extracted import SOURCES, extract
from tests.stores import go, put, rejects, rows

TEXT = (
    "2. Sandbag placement\n\nWhere to begin\n\n"
    "Fill each sandbag half full before the river rises. Fold the top under.\n\n"
    "The river gauge, the flood warning siren and the flood warning radio tell when; the siren is loud."
)


def queries(source: str, text: str = TEXT, *, title: str = "Levee handbook", begins: bool = True, most: int = 9):
    return [one.query for one in extract("p1", title, text, begins=begins, sources=(source,), most=most)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("headings", ["Sandbag placement"]),
        ("titles", ["Levee handbook"]),
        ("first_sentences", ["Fill each sandbag half full before the river rises."]),
        ("phrases", ["flood warning radio tell flood warning siren sandbag half full"]),
    ],
)
def test_each_source_gives_what_its_name_says(source, found):
    assert queries(source) == found


def test_a_phrase_counts_what_its_words_do_elsewhere():
    """Degree over frequency: b 3/1, c (2+1)/2, d 2/1, so that "b c" has 3.5 and "c" alone 1.5."""
    text = "beta gamma, the gamma. A delta echo foxtrot."
    assert queries("phrases", text) == ["delta echo foxtrot beta gamma gamma"]


@pytest.mark.parametrize("numbered", ["2. Levee repair", "1.14. Levee repair", "IV) Levee repair", "• Levee repair"])
def test_a_headings_number_is_no_part_of_the_query(numbered):
    assert queries("headings", f"{numbered}\n\nText follows here.") == ["Levee repair"]


def test_a_title_is_a_query_for_the_first_passage_alone():
    assert queries("titles", begins=False) == []


@pytest.mark.parametrize("text", ["", "1\n\n2", "The of and.\n\nIt is.", "Introduction\n\n17 18 19"])
def test_what_says_nothing_is_no_query(text):
    assert [query for source in SOURCES for query in queries(source, text, title="Untitled")] == []


def test_which_queries_are_taken_hangs_on_the_passage_and_its_id_alone():
    every = extract("p1", "Levee handbook", TEXT, begins=True, sources=SOURCES, most=9)
    assert {one.source for one in every} == set(SOURCES)
    assert extract("p1", "Levee handbook", TEXT, begins=True, sources=SOURCES[::-1], most=2) == every[:2]
    others = (extract(f"p{n}", "Levee handbook", TEXT, begins=True, sources=SOURCES, most=1)[0] for n in range(20))
    assert len({one.source for one in others}) > 1


def test_pairs_have_their_passage_as_positive_and_its_split(tmp_path):
    store = LocalStore(tmp_path)
    passages = [
        {"passage_id": "p1", "doc_id": "d", "title": "Levee handbook", "text": TEXT, "start_char": 0, "split": "train"},
        {
            "passage_id": "p2",
            "doc_id": "d",
            "title": "Levee handbook",
            "text": "1 2 3",
            "start_char": 90,
            "split": "dev",
        },
    ]
    put(store, PASSAGES, passages)
    made = go(store, extract_queries, query_source=["titles", "headings"])
    found = rows(store, "mtp/extracted")
    assert {row["query"]: row["origin"] for row in found} == {
        "Levee handbook": "extracted/titles",
        "Sandbag placement": "extracted/headings",
    }
    assert {(row["positive_id"], row["passage_id"], row["positive"], row["split"]) for row in found} == {
        ("p1", "p1", TEXT, "train")
    }
    assert rejects(store, "mtp/extracted")["p2"]["reason"] == "no_query"
    assert made.counters["queries/titles"] == 1


def test_a_new_document_costs_its_own_passages_alone(tmp_path):
    store = LocalStore(tmp_path)
    one, other = (
        [{"passage_id": name, "doc_id": name, "title": "", "text": TEXT, "start_char": 0, "split": "train"}]
        for name in ("p1", "p2")
    )
    put(store, PASSAGES, one)
    first = go(store, extract_queries)
    put(store, PASSAGES, one, other)
    more = go(store, extract_queries)
    assert (first.counters["parts_built"], more.counters["parts_built"]) == (1, 1)
    assert {row["passage_id"] for row in rows(store, "mtp/extracted")} == {"p1", "p2"}
    assert go(store, extract_queries).ref == more.ref
