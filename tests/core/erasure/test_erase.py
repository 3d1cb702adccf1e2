"""A takedown: nothing of a document is left, and nothing of others is lost."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.erasure.erase import erase
from pipeline_tasks.core.erasure.listed import erased_ids, erasures
from pipeline_tasks.core.erasure.search import anchors, quotes
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.check import find_damage
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.datasets import NEEDS
from pipeline_tasks.synthesis.prompting.prompts import clip
from tests.core.erasure.library import SCHEMAS, SECRET, A, B, everything, fill, take_down
from tests.stores import put, rows


@pytest.fixture
def store(any_store: Store) -> Store:
    fill(any_store)
    return any_store


def traces(store: Store, *needles: str) -> list[str]:
    """Keys of files whose bytes, or of parts whose rows, hold one of these."""
    found = []
    for key, data in everything(store).items():
        text = (data or b"").decode("utf-8", "replace")
        if key.endswith(".parquet"):
            text = repr(pq.read_table(store.local_path(key)).to_pylist())
        found += [key for needle in needles if needle in text]
    return found


IDS = [A.url_id, A.doc_id, A.sha256, *A.passages, *A.queries, *A.positives]


def test_nothing_of_it_is_left_in_any_version_or_beside_them(store):
    assert traces(store, SECRET, A.url, *IDS)
    done = take_down(store, A.url)
    assert traces(store, SECRET, A.url, *IDS) == []
    assert done.findings and done.findings.clean and done.findings.looked["objects"] > 10
    assert not list(store.scratch("crawl").iterdir())
    events = b"".join(store.read(key) or b"" for key in store.keys("lineage/events")).decode()
    assert A.doc_id not in events and f"{A.url} " not in events and B.url in events and f"{A.url}2" in events
    assert find_damage(store).objects == {}


def test_versions_keep_their_ids_and_all_that_is_of_others(store):
    before = {key: load_manifest(store, ref_of(key)) for key in store.keys("versions")}
    done = take_down(store, A.doc_id)
    after = {key: load_manifest(store, ref_of(key)) for key in store.keys("versions")}
    assert before.keys() == after.keys() and len(done.versions) == sum(bool(m.erased) for m in after.values()) > 8
    assert [len(m.parts) for m in after.values()] == [len(m.parts) for m in before.values()]
    assert {r["doc_id"] for name in ("downloads", "documents", "passages") for r in rows(store, name)} == {B.doc_id}
    assert [r["passage_id"] for r in rows(store, "embeddings/m")] == B.passages
    assert [r["url"] for r in rows(store, "urls")] == [A.url, B.url], "the address is not the document"
    assert all(m.rows == sum(t.num_rows for t in Version(store, m).parts()) for m in after.values() if m.key != "name")
    removed = [key for r in after[key_of("passages", after)].removals for key in keys_in(store, r.part.key)]
    assert A.doc_id not in removed and len(removed) == 1


def ref_of(key: str) -> Ref:
    dataset, _, name = key.removeprefix("versions/").rpartition("/")
    return Ref(dataset=dataset, version=name[:-5])


def key_of(dataset: str, manifests: dict) -> str:
    return next(key for key, manifest in manifests.items() if manifest.dataset == dataset)


def keys_in(store: Store, key: str) -> list[str]:
    return pq.read_table(store.local_path(key))["key"].to_pylist()


def test_a_row_of_another_document_goes_only_where_its_text_is_the_erased_ones(store):
    take_down(store, A.doc_id)
    assert [r["query_id"] for r in rows(store, "pairs")] == B.queries, "what B's queries were written from is B's"
    (labelled,), (triplet,) = rows(store, "labelled"), rows(store, "mtt/0.75")
    assert labelled["query_id"] == triplet["query_id"] == B.queries[0], "the other's positive is a passage of A"
    assert [vote["passage_ids"] for vote in labelled["votes"]] == [[B.passages[1]]]
    assert (triplet["negative_ids"], triplet["negative_scores"]) == ([B.passages[1]], [0.5])
    assert triplet["negatives"] == [B.passage(1)]
    assert [(r["passage_ids"], r["scores"]) for r in rows(store, "rankings/m")] == [
        (B.passages, [pytest.approx(0.8), 0.5])
    ] * 2
    assert rows(store, "document_clusters") == [], "that B repeats A says what A was"


def test_answers_that_were_bought_for_it_go_and_no_others(store):
    assert erase(store, [A.doc_id], SCHEMAS, dry_run=True).answers == 7
    done = take_down(store, A.doc_id)
    assert done.answers == 7, "two a passage that rows name, one that no row does, and the vectors of a part"
    assert len(list(store.keys("responses"))) == 6, "though one part was paid with the answers of both"
    (part,) = load_manifest(store, Ref.parse("needs")).parts
    (receipt,) = store.keys("receipts")
    assert receipt == f"receipts/{part.sha256}.json"
    assert json.loads(store.read(receipt))["responses"] == sorted(B.answers), "what the part is paid with now"
    assert list(store.keys("memo")) == ["memo/1.json"]


def test_answers_that_have_a_short_text_of_it_go_where_its_part_was_paid_with_them(store):
    lost = {"need_id": "n", "passage_id": A.passages[0], "need": "who is to be forgotten"}
    put(store, NEEDS, [lost], dataset="refused")
    (part,) = load_manifest(store, Ref.parse("refused")).parts
    names = [digest(f"graded {n}") for n in range(2)]
    asked = {"request": {"prompt": json.dumps(["Who?", "who is to be forgotten"])}}
    for name in names:
        store.create(f"responses/{name[:2]}/{name}.json", json.dumps(asked).encode())
    store.create(f"receipts/{part.sha256}.json", json.dumps({"responses": names[:1]}).encode())
    take_down(store, A.doc_id)
    assert [store.exists(f"responses/{name[:2]}/{name}.json") for name in names] == [False, True]


def _graded(store: Store, name: str, need: str, prompt: str) -> str:
    """An answer that a part with this need of ``A``, and one of ``B``, was paid with."""
    rest = {"need_id": "of b", "passage_id": B.passages[0], "need": "floods", "intent": "qa"}
    lost = {"need_id": name, "passage_id": A.passages[0], "need": need, "intent": "qa"}
    (part,) = load_manifest(store, put(store, NEEDS, [lost, rest], dataset=f"graded/{name}")).parts
    key = f"responses/{digest(name)[:2]}/{digest(name)}.json"
    store.create(key, json.dumps({"request": {"prompt": prompt}}, ensure_ascii=False).encode())
    store.create(f"receipts/{part.sha256}.json", json.dumps({"responses": [digest(name)]}).encode())
    return key


PLAN, WATER = "\u9632\u6c5b\u5e94\u6025\u9884\u6848", "\u0e19\u0e49\u0e33\u0e17\u0e48\u0e27\u0e21"
CASES = {
    "chinese": (PLAN, f"Need: \u4ec0\u4e48\u662f{PLAN}\uff1f\nServes:", True),
    "thai": (WATER, f"\u0e01{WATER}\u0e02", True),
    "one word": ("Lahaina", "Passage: of others\nNeed: Lahaina\nServes:", True),
    "in json": ("dam gone", json.dumps({"passage": "of others", "need": "dam gone"}), True),
    "inside another": ("Lahaina", "Passage: fires in Lahaina, and elsewhere\nServes:", False),
    "of others, too": ("floods", "Need: floods\nServes:", False),
    "a label": ("Lahaina", "Intent: qa\nServes:", False),
}


@pytest.mark.parametrize(("need", "prompt", "goes"), CASES.values(), ids=CASES)
def test_answers_that_have_a_text_of_few_letters_go_where_that_tells_of_it(store, need, prompt, goes):
    key = _graded(store, "n", need, prompt)
    assert take_down(store, A.doc_id).findings.clean and store.exists(key) != goes


def test_a_text_without_blanks_is_looked_for_as_a_longer_one_of_letters(store, monkeypatch):
    need = "\u4e0a\u6e38\u7684\u6c34\u5e93\u5927\u575d\u6e83\u51b3\u540e\u5982\u4f55\u758f\u6563\u5c45\u6c11"
    _graded(store, "n", need, "")
    elsewhere = f"responses/{digest('elsewhere')[:2]}/{digest('elsewhere')}.json"
    store.create(elsewhere, json.dumps({"request": f"Need: {need}\n"}, ensure_ascii=False).encode())
    monkeypatch.setattr("pipeline_tasks.core.erasure.answers.forget", lambda *_: None)
    findings = take_down(store, A.doc_id).findings
    assert elsewhere in findings.where and not findings.clean


def test_a_text_is_found_in_a_prompt_that_is_json_itself():
    text = 'She said "never again", and left "for good" the list of\u00ad the people of "Mill Lane".'
    asked = {"messages": [{"content": json.dumps({"passage": clip(text)})}]}
    assert quotes(json.dumps({"request": asked}).encode(), anchors({text}))


def test_tables_of_partitions_go_whatever_they_hold(store):
    words = write_rows(store, pa.table({"word": ["levee"], "n_passages": [1]}))
    record = Record(output=words, rejects=None, skipped={}, counters={}, partial=True)
    store.replace("memo/words.json", record.model_dump_json().encode())
    take_down(store, A.doc_id)
    assert not store.exists("memo/words.json") and not store.exists(words.key)


def _damage(store: Store, key: str) -> None:
    store.replace(key, b"torn")
    if isinstance(store, S3Store):
        store.objects.copies.drop(key)


def test_a_damaged_part_goes_where_no_version_names_it_and_is_told_where_one_does(store):
    part = write_rows(store, pa.table({"word": ["levee"]}))
    record = Record(output=part, rejects=None, skipped={}, counters={})
    store.replace("memo/words.json", record.model_dump_json().encode())
    _damage(store, part.key)
    assert take_down(store, A.doc_id).findings.clean
    assert not store.exists("memo/words.json") and not store.exists(part.key)
    (bodies,) = (p.bodies.key for p in load_manifest(store, Ref.parse("downloads")).parts if p.bodies)
    _damage(store, bodies)
    with pytest.raises(InputError, match=f"{bodies} in .* see `foundry check`"):
        take_down(store, A.doc_id)


def test_models_are_told_by_what_they_were_trained_on(store):
    done = take_down(store, A.doc_id)
    assert [m.dataset for m in done.models] == ["model/33m/pretrain", "model/33m/finetune"]
    assert [m.dataset for m in take_down(store, A.doc_id).models] == ["model/33m/pretrain", "model/33m/finetune"]


def test_it_is_done_once_and_the_same_again(store):
    take_down(store, A.url)
    once = everything(store)
    again = take_down(store, A.url)
    assert again.versions == [] and not again.rows and everything(store) == once
    (kept,) = erasures(store)
    assert kept.done and {A.url_id, A.sha256} <= erased_ids(store)
    assert not any("/" in i for i in kept.ids), "no address is kept"


def test_steps_that_run_are_not_overtaken(store):
    with pinned(store, "embed_passages", []), pytest.raises(TransientError, match="embed_passages runs; erase again"):
        take_down(store, A.url)
    assert not erased_ids(store) and not store.exists("gc/marked.json")


def test_batches_that_are_on_their_way_are_not_overtaken(store):
    store.create("batches/failed.json", b"{}")
    for i in range(6):
        store.create(f"batches/{i}.json", b"{torn")
    with pytest.raises(TransientError, match=r"what goes: batches/0\.json, .*batches/4\.json, …\. .*`foundry batch"):
        take_down(store, A.url)
    assert not erased_ids(store) and not store.exists("gc/marked.json")
    store.delete_all([f"batches/{i}.json" for i in range(6)])
    assert take_down(store, A.url).findings.clean


class Killed(BaseException):
    """The process is gone: nothing of ours handles that."""


def test_rejects_that_versions_share_are_brought_once(store, monkeypatch):
    (part,), brought = load_manifest(store, Ref.parse("downloads")).rejects, []
    monkeypatch.setattr(type(store), "bring", lambda _, keys: brought.extend(keys))
    monkeypatch.setattr("pipeline_tasks.core.erasure.answers.hand_on", lambda *_: sys.exit())
    with pytest.raises(SystemExit):
        take_down(store, A.url)
    assert brought.count(part.key) == 1


def test_killed_at_any_write_it_is_finished_by_the_next_run(tmp_path, monkeypatch):
    filled, calm = LocalStore(tmp_path / "filled"), LocalStore(tmp_path / "calm")
    fill(filled)
    shutil.copytree(filled.root, calm.root)
    take_down(calm, A.url)
    wanted = everything(calm)
    kills = 0
    for at in range(1, 200, 6):
        store = LocalStore(tmp_path / str(at))
        shutil.copytree(filled.root, store.root)
        left = [at]

        def dying(method: str, left: list[int] = left):
            real = getattr(LocalStore, method)

            def call(self: LocalStore, *args: object) -> object:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return real(self, *args)

            return call

        with monkeypatch.context() as patch:
            for method in ("replace", "create_from", "delete_all", "delete"):
                patch.setattr(LocalStore, method, dying(method))
            try:
                take_down(store, A.url)
            except Killed:
                kills += 1
        ended = left[0] > 0
        assert take_down(store, A.url).findings.clean
        assert everything(store) == wanted, at
        if ended:
            break
    assert kills >= 6 and ended


def test_the_list_outlives_what_it_was_made_from(tmp_path: Path):
    """Killed between two versions, the rows that lead to the others are gone already."""
    store = LocalStore(tmp_path)
    fill(store)
    take_down(store, A.doc_id)
    fresh = LocalStore(tmp_path / "fresh")
    fill(fresh)
    for key in list(fresh.keys("versions/pairs")) + list(fresh.keys("versions/needs")):
        fresh.delete(key)
    for kept in store.keys("erasures"):
        fresh.create(kept, store.read(kept) or b"")
    take_down(fresh, A.doc_id)
    assert [r["query_id"] for r in rows(fresh, "mtt/0.75")] == [B.queries[0]]
    assert all(A.positives[1] not in r["passage_ids"] for r in rows(fresh, "rankings/m"))
