"""What the lineage page shows: graph, one version, a comparison, a story."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest
import toy

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.lineage.compare import compare
from pipeline_tasks.core.lineage.detail import clipped, detail
from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.graph import graph, versions
from pipeline_tasks.core.lineage.query import MAX_ROWS
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.story import find_queries, story
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import part_schema
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, point

_filled = toy.filled


@pytest.fixture
def reader(built) -> Reader:
    return Reader(built)


@pytest.fixture
def fresh(store) -> Reader:
    return Reader(store, fresh_s=0)


def ids(reader: Reader, dataset: str) -> list[Ref]:
    return [Ref.parse(row["ref"]) for row in versions(reader) if row["dataset"] == dataset]


def test_the_graph_leads_from_addresses_to_the_evaluation(reader):
    found = graph(reader)
    layers = {node["dataset"]: node["layer"] for node in found["nodes"]}
    assert min(layers, key=layers.get) == "urls"
    assert max(layers, key=layers.get) == "eval/dev"
    assert all(layers[e["source"].split("@")[0]] < layers[e["target"].split("@")[0]] for e in found["edges"])


def test_what_a_dataset_grew_from_is_shown_around_a_chosen_version_alone(tmp_path):
    store = LocalStore(tmp_path)
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        run_job(store, plan(store, toy.toy_urls, {"names": names}))
    reader = Reader(store)
    newest = next(iter(ids(reader, "urls")))
    assert [node["ref"] for node in graph(reader)["nodes"]] == [str(newest)]
    assert len(graph(reader, newest)["nodes"]) == len(ids(reader, "urls")) > 1


def test_a_chosen_version_shows_what_it_is_made_from_and_what_is_made_of_it(reader):
    names = {node["dataset"] for node in graph(reader, Ref.parse("needs"))["nodes"]}
    assert {"urls", "passages", "needs", "mtp", "eval/dev"} <= names
    alone = {node["dataset"] for node in graph(reader, Ref.parse("mtt/0.65"))["nodes"]}
    assert "mtt/0.75" not in alone and "labelled" in alone


def test_a_large_graph_is_cut_at_the_far_end(reader):
    found = graph(reader, Ref.parse("needs"), most=3)
    assert {node["dataset"] for node in found["nodes"]} == {"passages", "needs", "mtp"}
    assert found["n_left_out"] > 0


def test_the_old_corpus_is_shown_only_to_who_asks_for_it(fresh):
    toy.corpus(fresh.store, "a", "twin", "bad", "e")
    new, old = ids(fresh, "documents")
    assert str(old) in {n["ref"] for n in graph(fresh)["nodes"]}, "needs was made from it"
    assert str(new) not in {n["ref"] for n in graph(fresh, old)["nodes"]}


def test_a_version_that_is_gone_is_still_named(fresh):
    (needs,) = ids(fresh, "needs")
    fresh.store.delete(f"versions/needs/{needs.version}.json")
    node = next(n for n in graph(fresh)["nodes"] if n["dataset"] == "needs")
    assert node["is_missing"]


def test_a_version_that_the_store_does_not_have_is_refused_before_the_lineage_is_looked_at(built, monkeypatch):
    monkeypatch.setattr("pipeline_tasks.core.lineage.reader.fold", None)
    for name in ("nothing", "documents@0123456789abcdef", "documents@best"):
        with pytest.raises(InputError, match=f"{name}.* is not in the store"):
            graph(Reader(built), Ref.parse(name))


def test_a_graph_is_around_what_the_panel_beside_it_tells_of(store):
    lineage = Reader(store, fresh_s=600)
    ref = load_manifest(store, Ref.parse("documents")).ref
    point(store, ref, "best")
    assert graph(lineage)["nodes"]
    for name in (str(ref), "documents", "documents@best", "documents/rejects", f"documents/rejects@{ref.version}"):
        assert graph(lineage, Ref.parse(name))["focus"] == str(ref)


def test_one_version_in_full(reader):
    found = detail(reader, Ref.parse("documents"))
    assert found["manifest"]["step"] == "toy_documents"
    assert {row["name"]: row["value"] for row in found["counters"]}["pages"] == 3
    assert found["totals"]["seconds"] >= 0 and found["totals"]["n_runs"] == 1
    assert [(r["reason"], r["n"], r["samples"][0]["row_id"]) for r in found["rejects"]] == [("encrypted", 1, "bad")]
    assert sorted(row["doc_id"] for row in found["rows"]) == ["d-a", "d-twin"], "the rows of the first part"
    assert found["problem"] == ""
    assert [c["name"] for c in found["columns"]][:2] == ["doc_id", "url_id"]
    assert json.dumps(found, default=str)
    assert detail(reader, Ref.parse("mtp"))["cost"]["prompt_tokens"] == 1500
    assert detail(reader, Ref.parse("model/33m/finetune"))["rows"] == []
    refused = detail(reader, Ref.parse("documents/rejects"))
    told = ("runs", "totals", "counters", "cost", "rejects", "made", "versions")
    assert [row["row_id"] for row in refused["rows"]] == ["bad"]
    assert {name: refused[name] for name in told} == {name: found[name] for name in told}


def test_first_rows_are_read_when_the_questions_are_answered(built, monkeypatch):
    lineage, asked = Reader(built, at_once=1, patience_s=0.1), []
    noted = lambda store, part: asked.append(versions(lineage)) or part_schema(store, part)  # noqa: E731
    monkeypatch.setattr("pipeline_tasks.core.lineage.detail.part_schema", noted)
    assert detail(lineage, Ref.parse("documents"))["rows"] and asked


def test_groups_of_parts_count_their_rows_once_and_those_of_another_request_not_at_all(tmp_path):
    store = LocalStore(tmp_path)
    toy.make(store, toy.toy_urls, names=("a", "b"))
    run_job(store, plan(store, toy.toy_documents, {}), group=(0, 2))
    toy.make(store, toy.toy_urls, names=("bad", "c", "d", "e", "f", "g"))
    job = plan(store, toy.toy_documents, {})
    for i in range(3):
        run_job(store, job, group=(i, 3))
    found = detail(Reader(store), run_job(store, job).ref)
    counted = {row["name"]: row["value"] for row in found["counters"]}
    assert [counted[name] for name in ("rows_in", "rows_out", "rows_rejected", "rows_built", "pages")] == [
        6,
        5,
        1,
        6,
        5,
    ]
    assert found["totals"]["n_runs"] == 4, "three groups and the run that made the version"


def test_what_fits_a_page_is_kept_and_the_rest_is_cut():
    assert clipped("x" * 1000) == "x" * 400 + "…"
    assert clipped(list(range(10))) == [*range(8), "… 2 more"]
    assert clipped({"a": b"123", "b": float("nan"), "c": True}) == {"a": "<3 bytes>", "b": "nan", "c": True}
    assert clipped([2**53, 2**53 + 1, -(2**63)]) == [2**53, "9007199254740993", "-9223372036854775808"]


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_version_whose_rows_cannot_be_read_still_tells_how_it_was_made(fresh, how):
    toy.corpus(fresh.store, "a", "twin", "bad", "e", "f")
    new, old = ids(fresh, "documents")
    part = fresh.store.local_path(load_manifest(fresh.store, new).parts[0].key)
    part.chmod(0o644)
    part.unlink() if how == "gone" else part.write_bytes(part.read_bytes()[:100])
    found = detail(fresh, new)
    assert (found["manifest"]["step"], found["rows"], found["columns"]) == ("toy_documents", [], [])
    assert "foundry check" in found["problem"] and len(found["rejects"]) == 1
    with pytest.raises(InputError, match="foundry check"):
        compare(fresh, new, old)


def test_a_refresh_adds_and_removes_rows(fresh):
    toy.corpus(fresh.store, "a", "twin", "bad", "e", "f")
    new, old = ids(fresh, "documents")
    found = compare(fresh, old, new)
    assert (found["n_added"], found["n_removed"], found["n_changed"]) == (2, 1, 0)
    assert [row["doc_id"] for row in found["added"]] == ["d-e", "d-f"]
    assert [row["doc_id"] for row in found["removed"]] == ["d-c"]
    assert [row["name"] for row in found["inputs"]] == ["urls"]
    back = compare(fresh, new, old)
    assert (back["n_added"], back["n_removed"]) == (1, 2)


def test_another_parameter_changes_rows_by_their_key(reader):
    found = compare(reader, Ref.parse("rankings/alpha"), Ref.parse("rankings/beta"))
    assert (found["n_added"], found["n_changed"], found["n_removed"]) == (0, 0, 0)
    assert found["params"] == [{"name": "model", "old": "alpha", "new": "beta"}]
    documents = compare(reader, Ref.parse("documents"), Ref.parse("distinct_documents"))
    assert [row["doc_id"] for row in documents["removed"]] == ["d-twin"]


def test_a_changed_row_shows_only_what_changed(fresh, monkeypatch):
    before = Ref.parse(str(ids(fresh, "documents")[0]))
    monkeypatch.setattr(toy, "filled", lambda schema, **v: _filled(schema, **(v | {"title": "Other"})))
    toy.make(fresh.store, dataclasses.replace(toy.toy_documents, version="2"))
    found = compare(fresh, before, Ref.parse("documents"))
    assert (found["n_added"], found["n_changed"], found["n_removed"]) == (0, 3, 0)
    assert found["changed"][0]["columns"] == [{"column": "title", "old": "Title a", "new": "Other"}]


def test_versions_of_other_rows_cannot_be_compared(reader):
    with pytest.raises(InputError, match="choose two alike"):
        compare(reader, Ref.parse("needs"), Ref.parse("documents"))


def test_the_files_of_models_are_compared_by_name(reader):
    found = compare(reader, Ref.parse("model/33m/finetune"), Ref.parse("model/33m/finetune"))
    assert (found["n_added"], found["n_removed"], found["n_changed"]) == (0, 0, 0)


def test_a_story_has_the_paid_answers(reader):
    (found,) = [q for q in find_queries(reader, "WHAT OF d-A")]
    told = story(reader, found["query_id"])
    assert told["kind"] == "query" and told["story"]["page"] == 3
    assert told["calls"]["1" * 64] == {"prompt": "?", "answer": "!"}
    assert told["texts"]["p-d-a"] == "passage of d-a"
    assert story(reader, "p-d-a")["kind"] == "passage"
    assert find_queries(reader, "%") == []
    with pytest.raises(InputError, match="no query and no passage"):
        story(reader, "' OR 1 = 1")


def test_the_store_is_not_looked_at_for_every_question(store):
    lineage = Reader(store, fresh_s=60)
    before = len(versions(lineage))
    toy.corpus(store, "a", "z")
    assert len(versions(lineage)) == before
    assert len(versions(Reader(store))) > before


def test_a_version_that_the_lineage_does_not_have_yet_is_read_into_it(store):
    lineage = Reader(store, fresh_s=600)
    versions(lineage)
    toy.corpus(store, "a", "z")
    new = load_manifest(store, Ref.parse("documents"))
    assert graph(lineage, new.ref)["focus"] == str(new.ref)
    toy.corpus(store, "a", "y")
    new = load_manifest(store, Ref.parse("documents"))
    assert detail(lineage, Ref.parse("documents@latest"))["cost"]["n_responses"] == 0
    assert str(new.ref) in {row["ref"] for row in versions(lineage)}
    unreadable = new.model_copy(update={"id": "0" * 16, "inputs": {"urls": ["../urls"]}})
    commit(store, unreadable)
    with pytest.raises(TransientError, match="documents@0000000000000000; try again"):
        detail(lineage, unreadable.ref)


def test_a_question_of_the_page_has_all_its_rows(reader):
    assert len(reader.ask("FROM range(?)", 2 * MAX_ROWS)) == 2 * MAX_ROWS


def test_who_comes_while_others_are_answered_is_told_to_come_again(built):
    lineage = Reader(built, at_once=1, patience_s=0.1)
    with lineage.asking(), pytest.raises(TransientError, match="other questions .* try again in a few seconds"):
        lineage.ask("FROM versions")
    assert lineage.ask("SELECT 1 AS n") == [{"n": 1}]


def test_who_comes_while_the_lineage_is_folded_is_told_to_come_again(built, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()

    def slow(store, **options):
        begun.set()
        assert goes_on.wait(30)
        return fold(store, **options)

    monkeypatch.setattr("pipeline_tasks.core.lineage.reader.fold", slow)
    lineage = Reader(built, patience_s=0.1)
    first = threading.Thread(target=versions, args=(lineage,))
    first.start()
    try:
        assert begun.wait(30)
        with pytest.raises(TransientError, match="brought up to date; try again"):
            versions(lineage)
    finally:
        goes_on.set()
        first.join()
    assert versions(lineage)


def test_who_looks_at_the_graph_does_not_wait_until_rows_are_brought_for_others(built, monkeypatch):
    begun, goes_on = threading.Event(), threading.Event()

    def slow(store, con):
        begun.set()
        assert goes_on.wait(30)

    monkeypatch.setattr("pipeline_tasks.core.lineage.reader.bring_shown", slow)
    lineage = Reader(built, at_once=1, patience_s=0.1)
    first = threading.Thread(target=lineage.ask, args=("FROM passages",))
    first.start()
    try:
        assert begun.wait(30)
        assert graph(lineage)["nodes"]
    finally:
        goes_on.set()
        first.join()
