"""Stories of ids that two corpora give to different passages."""

from __future__ import annotations

import pytest
import toy

from pipeline_tasks import datasets as d
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import older, query
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.story import story
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.paid.response_store import ResponseStore, answer_key
from pipeline_tasks.core.versions import load_manifest
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


def without_a(store, n_steps: int) -> None:
    """The first steps of the chain once more, after the document of a was taken from the list."""
    toy.make(store, toy.toy_urls, names=("twin", "bad", "c", "e"), max_withdrawn=1)
    chain = (toy.toy_documents, toy.toy_distinct, toy.toy_passages, toy.toy_needs, toy.toy_pairs)
    for one in (*chain, toy.toy_label)[:n_steps]:
        toy.make(store, one)


def test_a_query_that_the_latest_versions_have_no_more_is_traced_in_the_newest_that_has_it(store):
    of_builds = load_manifest(store, Ref.parse("mtp")).ref
    without_a(store, 6)
    assert query(store, "FROM trace_query('q-n-p-d-a')").to_pylist() == []
    told = story(Reader(store), "q-n-p-d-a")["story"]
    assert (told["found_in"], told["url"], told["page"]) == (str(of_builds), "https://example.org/a.pdf", 3)
    assert told["is_labelled"] and told["need"] and told["need_model"] == "small-llm" and len(told["rankings"]) == 3
    assert [build["dataset"] for build in told["builds"]] == ["mtt/0.65", "mtt/0.75"]
    (refusal,) = story(Reader(store), "q-n-p-d-c")["story"]["rejections"]
    assert refusal["reason"] == "no_agreement"
    assert story(Reader(store), "q-n-p-d-c")["story"]["found_in"] is None
    with pytest.raises(InputError, match="no query and no passage has the id 'q-x'"):
        story(Reader(store), "q-x")


def test_a_query_whose_passage_is_gone_until_pairs_are_made_anew_has_its_page(store):
    of_builds = load_manifest(store, Ref.parse("mtp")).ref
    without_a(store, 3)
    assert query(store, "SELECT page FROM trace_query('q-n-p-d-a')").to_pylist() == [{"page": None}]
    told = story(Reader(store), "q-n-p-d-a")["story"]
    assert (told["found_in"], told["url"], told["page"]) == (str(of_builds), "https://example.org/a.pdf", 3)


def test_versions_of_pairs_that_cannot_be_read_are_passed_over(store):
    put(store, d.PAIRS, [{"query_id": "q-lost", "split": "train"}], dataset="mtp/lost")
    (part,) = load_manifest(store, Ref.parse("mtp/lost")).parts
    store.local_path(part.key).unlink()
    assert story(Reader(store), "q-n-p-d-a")["story"]["page"] == 3
    with pytest.raises(InputError, match="no query and no passage"):
        story(Reader(store), "q-lost")


def test_the_page_brings_no_older_versions_of_a_bucket_and_looks_through_others_for_so_long(store, monkeypatch):
    without_a(store, 3)
    reader = Reader(store)
    monkeypatch.setattr(older, "LocalStore", ())
    assert story(reader, "q-n-p-d-a")["story"]["found_in"] is None
    with reader.asking() as ask:
        assert older.query_story(reader, ask, "q-n-p-d-a")["found_in"], "a command does"
    monkeypatch.undo()
    with reader.asking() as ask, pytest.raises(InputError, match="'q-x' in the newest versions; `foundry trace` looks"):
        older.query_story(reader, ask, "q-x", within_s=-1)
    with reader.asking() as ask:
        assert older.query_story(reader, ask, "q-n-p-d-a", within_s=-1)["found_in"] is None, "what the latest has stays"


def test_who_looks_at_an_answer_that_was_broken_off_sees_it_and_leaves_it(store):
    """Releases before stored such, and rows were made of them."""
    responses = ResponseStore(store)
    (name, *_) = story(Reader(store), "q-n-p-d-a")["calls"]
    record = responses.read(name)
    store.delete(answer_key(name))
    responses.write(name, record | {"response": {"text": "a le", "finish_reason": "error"}})
    assert story(Reader(store), "q-n-p-d-a")["calls"][name]["answer"] == "a le"
    assert responses.read(name) is None and responses.lying(name)["response"]["text"] == "a le"
