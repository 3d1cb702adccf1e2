from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import REMOVED, commit, load_manifest, point, resolve
from pipeline_tasks.corpus.chunk_passages import ChunkPassagesParams, chunk_passages
from pipeline_tasks.corpus.hold_out_documents import hold_out_documents
from pipeline_tasks.datasets import DOCUMENTS, HELD_OUT
from tests.stores import go, put, reasons, rejects, rows

MODEL = "all-minilm-l6-v2"


@pytest.fixture(autouse=True)
def nothing_held_out(store: LocalStore) -> None:
    held_out(store)


def held_out(store: LocalStore, **splits: str) -> None:
    """Hold documents out, by id; the version has no part where there are none, as the step leaves it."""
    found = [{"doc_id": name, "split": split, "reason": "drawn"} for name, split in splits.items()]
    put(store, HELD_OUT, *([found] if found else []))


def document(doc_id: str, pages: list[str], sha256: str = "") -> dict:
    starts, at = [], 0
    for page in pages:
        starts.append(at)
        at += len(page) + 2
    text = "\n\n".join(pages)
    return {
        "doc_id": doc_id,
        "url": f"http://example.org/{doc_id}",
        "content_sha256": sha256 or doc_id,
        "title": doc_id.title(),
        "text": text,
        "page_starts": starts,
    }


def sentences(name: str, n: int) -> str:
    return " ".join(f"The {name} rises over road number {i} in the night." for i in range(n))


@pytest.fixture(params=["semantic", "structure"])
def chunked(request, store: LocalStore, fetched) -> LocalStore:
    """Two documents in two parts, cut into passages of at most 64 tokens."""
    fetched(MODEL)
    first = document("first", [sentences("river", 20), "", sentences("creek", 20), "Short page."])
    put(store, DOCUMENTS, [first], [document("second", ["Too short."]), document("third", [""])])
    go(store, chunk_passages, mode=request.param, max_tokens=64, min_tokens=8)
    return store


def test_passages_know_their_characters_and_their_page(chunked):
    documents = {row["doc_id"]: row for row in rows(chunked, "documents")}
    passages = rows(chunked, "chunks")
    assert len({passage["passage_id"] for passage in passages}) == len(passages) > 5
    for passage in passages:
        whole = documents[passage["doc_id"]]
        assert passage["text"] == whole["text"][passage["start_char"] : passage["end_char"]]
        begins_before = [start for start in whole["page_starts"] if start <= passage["start_char"]]
        assert passage["page"] == len(begins_before)
        assert 8 <= passage["n_tokens"] <= 64
    pages = {"river" if "river" in p["text"].split()[1] else "creek": p["page"] for p in passages}
    assert pages == {"river": 1, "creek": 3}


def test_what_is_too_short_is_a_reject(chunked):
    assert reasons(chunked, "chunks")["too_few_tokens"] >= 1
    assert "second" not in {passage["doc_id"] for passage in rows(chunked, "chunks")}


def test_a_document_is_on_one_side_as_a_whole(store, fetched):
    fetched(MODEL)
    held_out(store, one="test", two="dev")
    put(store, DOCUMENTS, [document(name, [sentences("river", 30)]) for name in ("one", "two", "three")])
    go(store, chunk_passages, max_tokens=64, min_tokens=0)
    found = {(passage["doc_id"], passage["split"]) for passage in rows(store, "chunks")}
    assert found == {("one", "test"), ("two", "dev"), ("three", "train")}


def test_what_was_held_out_of_other_documents_is_refused_until_it_is_made_for_these(store, fetched):
    fetched(MODEL)
    names = [f"{name}{i}" for name in ("river", "creek") for i in range(20)]
    week = {name: document(name, [sentences(name, 9)]) | {"url_id": f"at-{name}"} for name in names}
    few = {"test_documents": 5, "dev_documents": 0}
    put(store, DOCUMENTS, list(week.values()))
    go(store, hold_out_documents, **few)
    go(store, chunk_passages, mode="structure")
    (name, *_) = {row["doc_id"] for row in rows(store, "chunks") if row["split"] == "test"}
    week[name] = document(f"{name}-anew", [sentences(name, 10)]) | {"url_id": f"at-{name}"}
    now = put(store, DOCUMENTS, list(week.values()))
    with pytest.raises(InputError, match=rf"held_out@\w+ is not of {now}, .*; run hold_out_documents of these"):
        go(store, chunk_passages, mode="structure")
    go(store, hold_out_documents, **few)
    go(store, chunk_passages, mode="structure")
    assert {row["split"] for row in rows(store, "chunks") if row["doc_id"] == f"{name}-anew"} == {"test"}
    more = put(store, DOCUMENTS, [*week.values(), document("more", [sentences("more", 9)]) | {"url_id": "at-more"}])
    assert go(store, hold_out_documents, **few).reused, "it answers for these, too"
    go(store, chunk_passages, mode="structure")
    assert load_manifest(store, resolve(store, Ref.parse("chunks"))).inputs["documents"] == [str(more)]


def test_scraps_join_a_neighbour_and_are_refused_only_where_there_is_no_room(store, fetched):
    fetched(MODEL)
    scrap = "Then call.\n\n" + sentences("river", 9) + "\n\nSee also."
    put(store, DOCUMENTS, [document("joined", [scrap]), document("alone", ["Nothing else."])])
    go(store, chunk_passages, max_tokens=64, min_tokens=16)
    texts = [passage["text"] for passage in rows(store, "chunks")]
    assert texts[0].startswith("Then call.") and texts[-1].endswith("See also.")
    refused = rejects(store, "chunks").values()
    told = "3 tokens, characters 0 to 13 of http://example.org/alone"
    assert [(r["row_id"], r["reason"], r["detail"]) for r in refused] == [("alone", "too_few_tokens", told)]


def test_a_document_that_the_tokenizer_does_not_know_is_a_reject(store, fetched):
    fetched(MODEL)
    thai = " ".join(["น้ำท่วมหมายถึงการที่มีน้ำไหลเอ่อล้นเข้าท่วมพื้นดินที่ตามปกติแล้วแห้งอยู่" * 3] * 40)
    put(store, DOCUMENTS, [document("thai", [thai]), document("some", [sentences("river", 40), thai[:400]])])
    go(store, chunk_passages)
    assert {row["doc_id"] for row in rows(store, "chunks")} == {"some"}
    (refused,) = [r for r in rejects(store, "chunks").values() if r["reason"] == "unknown_tokens"]
    assert refused["row_id"] == "thai"
    told = (
        f"http://example.org/thai 99% of its letters are unknown to the tokenizer of {MODEL}; set another `tokenizer`"
    )
    assert refused["detail"] == told


def test_known_letters_whose_blanks_are_lost_are_passages(store, fetched):
    fetched(MODEL)
    plain, glued = sentences("river", 40), ("theriverrisesovertheroad" * 209)[:5000]
    put(store, DOCUMENTS, [document("glued", [glued * 2]), document("some", [f"{plain} {glued} {plain}"])])
    go(store, chunk_passages, min_tokens=24)
    n_characters = sum(len(passage["text"]) for passage in rows(store, "chunks"))
    assert n_characters > 0.95 * (2 * len(plain) + 3 * len(glued)) and not reasons(store, "chunks")


def test_what_was_refused_of_a_document_goes_with_it(store, fetched):
    fetched(MODEL)
    long, short = document("long", [sentences("river", 9)]), document("short", ["Too short."])
    documents = put(store, DOCUMENTS, [long, short])
    go(store, chunk_passages)
    assert reasons(store, "chunks") == {"too_few_tokens": 1}
    without(store, documents, "short")
    assert go(store, chunk_passages).counters["parts_reused"] == 1 and not reasons(store, "chunks")


def test_a_new_document_moves_no_passage_of_another(store, fetched):
    fetched(MODEL)
    first, second = document("first", [sentences("river", 40)]), document("second", [sentences("creek", 40)])
    put(store, DOCUMENTS, [first])
    go(store, chunk_passages, max_tokens=64)
    before = rows(store, "chunks")
    put(store, DOCUMENTS, [second, first])
    go(store, chunk_passages, max_tokens=64)
    assert [row for row in rows(store, "chunks") if row["doc_id"] == "first"] == before


def without(store, ref: Ref, doc_id: str) -> None:
    """The same documents, but for one that was removed since."""
    documents = load_manifest(store, ref)
    keys = write_rows(store, pa.table({"key": [doc_id]}, schema=REMOVED))
    removal = Removal(part=keys, column="doc_id", first=0, last=1)
    commit(store, documents.model_copy(update={"id": "1" * 16, "rows": documents.rows - 1, "removals": [removal]}))
    point(store, Ref(dataset="documents", version="1" * 16))


def test_a_document_held_out_later_moves_its_own_split_and_nothing_is_cut_anew(store, tmp_path, fetched):
    fetched(MODEL)
    river, creek = (document(name, [sentences(name, 40), "Too short."]) for name in ("river", "creek"))
    parts = [[river, document("scrap", ["Too short."])], [creek, document("blank", [""])]]
    limits, calm = {"max_tokens": 64, "min_tokens": 16}, LocalStore(tmp_path / "calm")
    put(store, DOCUMENTS, *parts)
    go(store, chunk_passages, **limits)
    before = load_manifest(store, resolve(store, Ref.parse("chunks")))
    for at in (store, calm):
        held_out(at, river="test")
    put(calm, DOCUMENTS, *parts)
    go(calm, chunk_passages, **limits)
    outcome = go(store, chunk_passages, **limits)
    now, fresh = (load_manifest(at, resolve(at, Ref.parse("chunks"))) for at in (store, calm))
    assert outcome.counters["documents_taken_over"] == 3
    assert now.parts == fresh.parts and [part in before.parts for part in now.parts] == [False, True]
    assert rejects(store, "chunks") == rejects(calm, "chunks") and reasons(store, "chunks")["too_few_tokens"] >= 1
    assert outcome.counters["tokens"] == sum(row["n_tokens"] for row in rows(store, "chunks"))


def test_what_was_removed_before_or_since_is_cut_and_left_out_as_ever(store, fetched):
    fetched(MODEL)
    both = put(store, DOCUMENTS, [document(name, [sentences(name, 20)]) for name in ("river", "creek")])
    without(store, both, "creek")
    go(store, chunk_passages)
    point(store, both)
    held_out(store, river="test")
    assert go(store, chunk_passages).counters["documents_taken_over"] == 1
    assert {row["doc_id"]: row["split"] for row in rows(store, "chunks")} == {"river": "test", "creek": "train"}
    without(store, both, "creek")
    held_out(store, river="dev")
    assert go(store, chunk_passages).counters["documents_taken_over"] == 1
    assert {(row["doc_id"], row["split"]) for row in rows(store, "chunks")} == {("river", "dev")}


def test_the_weights_and_the_mode_are_part_of_the_version():
    semantic, structure = ChunkPassagesParams(), ChunkPassagesParams(mode="structure")
    assert semantic.mode == "semantic"
    assert semantic.identity() != structure.identity()
    assert semantic.identity()["weights"] != ChunkPassagesParams(tokenizer="all-mpnet-base-v2").identity()["weights"]


def test_a_limit_below_the_least_length_is_refused():
    with pytest.raises(ValueError, match="min_tokens=24 is more than max_tokens=20: no passage would be kept"):
        ChunkPassagesParams(max_tokens=20)
