"""Stories of ids that two corpora give to different passages."""

from __future__ import annotations

from pipeline_tasks import datasets as d
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.story import story
from tests.stores import put


def test_an_id_of_two_passages_has_both_their_stories(store):
    facts = {"passage_id": "p-d-a", "doc_id": "manual", "title": "A manual", "page": 7, "text": "of a manual"}
    for name in ("manuals", "manuals_kept"):
        put(store, d.PASSAGES, [facts], dataset=f"corpus/{name}")
    other, own = query(store, "FROM trace_passage('p-d-a')").to_pylist()
    assert (own["datasets"], own["text"], own["title"], own["page"]) == (
        ["passages"],
        "passage of d-a",
        "Title a",
        3,
    )
    assert other["datasets"] == ["corpus/manuals", "corpus/manuals_kept"], "what a step takes over is the same passage"
    assert (other["text"], other["title"], other["page"], other["source"]) == ("of a manual", "A manual", 7, "pdf")
    assert own["queries"] == other["queries"] != []
    told = story(Reader(store), "p-d-a")
    assert [told["story"]["doc_id"], *(row["doc_id"] for row in told["others"])] == ["manual", "d-a"]
    assert story(Reader(store), "w-n-p-d-a")["others"] == []


def test_a_query_is_from_the_passage_of_the_document_that_it_names(store):
    for name in ("aa", "zz"):
        row = {"passage_id": "p-d-a", "doc_id": name, "title": name, "page": 7, "text": f"of {name}"}
        put(store, d.PASSAGES, [row], dataset=name)
    (told,) = query(store, "SELECT page FROM trace_query('q-n-p-d-a')").to_pylist()
    assert told["page"] == 3
