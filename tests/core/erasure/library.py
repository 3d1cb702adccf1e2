"""A store with two documents and everything that is made of them: enough for a takedown to leave traces anywhere."""

from __future__ import annotations

import json
from typing import Any

from pipeline_tasks.core.erasure.erase import Erased, erase
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.execution.memo import Record
from pipeline_tasks.core.ids import digest, short_id
from pipeline_tasks.core.manifest import Manifest, Part, Ref, Removal
from pipeline_tasks.core.parts import write_file, write_rows
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.schema import FILES, REJECTS, RowSchema
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import REMOVED, commit, load_manifest, point
from pipeline_tasks.datasets import (
    ALL,
    DOCUMENT_CLUSTERS,
    DOCUMENTS,
    DOWNLOADS,
    LABELLED,
    NEEDS,
    PAIRS,
    PASSAGE_EMBEDDINGS,
    PASSAGES,
    RANKINGS,
    TRIPLETS,
    URLS,
)

SCHEMAS = {schema.name: schema for schema in ALL}
SECRET = "The name and the address of a person who has asked to be forgotten, in full, number "
PLAIN = "A dam of earth fails when water runs over its crest for longer than its grass can bear, "


class Document:
    """One document with two passages, a need, a query and a written positive of each."""

    def __init__(self, name: str, text: str) -> None:
        self.url = f"https://example.org/{name}.pdf"
        self.url_id, self.sha256 = short_id(self.url), digest(name)
        self.doc_id = short_id(self.url_id, self.sha256)
        self.text = text
        self.passages = [short_id(self.doc_id, n) for n in range(2)]
        self.queries = [short_id(passage, "query") for passage in self.passages]
        self.positives = [short_id(query, "positive") for query in self.queries]
        self.answers = [digest(passage, "answer") for passage in self.passages]

    def passage(self, n: int) -> str:
        return f"{self.text}{n}: and so it goes on for a while."

    def written(self, n: int) -> str:
        return f"Written of it: {self.text}{n}"


A, B = Document("a", SECRET), Document("b", PLAIN)
BOTH = (A, B)
VECTORS = digest("vectors of texts of both")


def version(
    store: Store,
    schema: RowSchema,
    *parts: list[dict],
    dataset: str = "",
    inputs: tuple[Ref, ...] = (),
    rejects: list[dict] | None = None,
    removed: dict[str, list[str]] | None = None,
) -> Ref:
    """A version of these rows."""
    written = [write_rows(store, schema.table(rows)) for rows in parts]
    refused = [write_rows(store, REJECTS.table(rejects))] if rejects else []
    gone = [
        Removal(part=write_rows(store, REMOVED.empty_table().from_pylist([{"key": k} for k in keys], schema=REMOVED)),
                column=column, first=0, last=len(written))
        for column, keys in (removed or {}).items()
    ]  # fmt: skip
    return _publish(store, dataset or schema.name, schema.name, schema.key, written, inputs, refused, gone)


def _publish(
    store: Store, dataset: str, schema: str, key: str, parts: list[Part], inputs: tuple[Ref, ...],
    rejects: list[Part] | None = None, removals: list[Removal] | None = None, step: str = "by_hand",
    params: dict[str, Any] | None = None,
) -> Ref:  # fmt: skip
    names = {f"input{n}": [str(ref)] for n, ref in enumerate(inputs)}
    manifest = Manifest(
        dataset=dataset, id=short_id(dataset, names, [p.sha256 for p in parts]), step=step, code_version="1",
        rows_schema=schema, key=key, params=params or {}, inputs=names, rows=sum(p.rows for p in parts), parts=parts,
        rejects=rejects or [], removals=removals or [],
    )  # fmt: skip
    commit(store, manifest)
    point(store, manifest.ref)
    return manifest.ref


def fill(store: Store) -> None:
    """Everything there is of ``A`` and ``B``; documents, passages and pairs of both share their parts."""
    urls = version(store, URLS, [{"url_id": d.url_id, "url": d.url, "source": "list"} for d in BOTH])
    rows = [
        {"doc_id": d.doc_id, "url_id": d.url_id, "url": d.url, "content": d.text.encode(), "content_sha256": d.sha256}
        for d in BOTH
    ]
    refused = [
        {"row_id": short_id("elsewhere"), "reason": "duplicate_url", "detail": f"{A.url} again"},
        {"row_id": A.url_id, "reason": "http_500", "detail": A.url},
    ]
    version(store, DOWNLOADS, [rows[1]], inputs=(urls,), rejects=refused)
    downloads = version(store, DOWNLOADS, rows, inputs=(urls,), rejects=refused)
    facts = [{k: row[k] for k in ("doc_id", "url_id", "url", "content_sha256")} for row in rows]
    texts = [f | {"text": d.text * 3, "title": d.text} for f, d in zip(facts, BOTH, strict=True)]
    documents = version(store, DOCUMENTS, texts, inputs=(downloads,))
    repeats = {"doc_id": B.doc_id, "representative_id": A.doc_id, "jaccard": 0.9}
    version(store, DOCUMENT_CLUSTERS, [repeats, {"doc_id": A.doc_id, "representative_id": A.doc_id, "jaccard": 1.0}])
    each = [(d, n) for d in BOTH for n in range(2)]
    passages = version(
        store, PASSAGES,
        *([{"passage_id": d.passages[n], "doc_id": d.doc_id, "url": d.url, "text": d.passage(n)}] for d, n in each[:1]),
        [{"passage_id": d.passages[n], "doc_id": d.doc_id, "url": d.url, "text": d.passage(n)} for d, n in each[1:]],
        inputs=(documents,), removed={"doc_id": [A.doc_id, short_id("old")]},
    )  # fmt: skip
    vectors = [{"passage_id": d.passages[n], "doc_id": d.doc_id, "embedding": [1.0, 0.0]} for d, n in each]
    version(store, PASSAGE_EMBEDDINGS, vectors, dataset="embeddings/m", inputs=(passages,))
    needs = version(store, NEEDS, [_need(d, n) for d, n in each], inputs=(passages,))
    pairs = version(store, PAIRS, [_pair(d, n) for d, n in each], inputs=(needs,))
    rankings = version(store, RANKINGS, [_ranking(d, n) for d, n in each], dataset="rankings/m", inputs=(pairs,))
    labelled = version(store, LABELLED, [_labelled(d, n) for d, n in each], inputs=(rankings,))
    triplets = version(store, TRIPLETS, [_triplet(d, n) for d, n in each], dataset="mtt/0.75", inputs=(labelled,))
    plain = version(store, TRIPLETS, [_triplet(B, 0, only_b=True)], dataset="mtt/plain", inputs=())
    tuned = _model(store, "model/33m/pretrain", triplets)
    _model(store, "model/33m/finetune", tuned)
    _model(store, "model/33m/plain", plain)
    _leave_traces(store)


def _need(d: Document, n: int) -> dict:
    return {"need_id": short_id(d.passages[n], "need"), "passage_id": d.passages[n], "doc_id": d.doc_id, "intent": "qa",
            "need": f"what {n}", "passage": d.passage(n), "split": "train", "response_id": d.answers[n]}  # fmt: skip


def _pair(d: Document, n: int) -> dict:
    return {"query_id": d.queries[n], "need_id": short_id(d.passages[n], "need"), "passage_id": d.passages[n],
            "doc_id": d.doc_id, "positive_id": d.positives[n], "positive": d.written(n), "passage": d.passage(n),
            "need_response_id": d.answers[n], "response_id": digest(d.answers[n])}  # fmt: skip


def _ranking(d: Document, n: int) -> dict:
    ids = [A.passages[0], B.passages[0], A.positives[1], B.passages[1]]
    return {"query_id": d.queries[n], "passage_id": d.passages[n], "doc_id": d.doc_id, "passage_ids": ids,
            "scores": [0.9, 0.8, 0.7, 0.5], "positive_score": 0.5}  # fmt: skip


def _labelled(d: Document, n: int) -> dict:
    other = B if d is B and n == 0 else A
    vote = {"model": "m", "passage_ids": [A.passages[0], B.passages[1]], "positive_rank": 1, "positive_score": 0.5}
    return {"query_id": d.queries[n], "positive_id": other.passages[0], "positive": other.passage(0),
            "source_passage_id": d.passages[n], "votes": [vote]}  # fmt: skip


def _triplet(d: Document, n: int, *, only_b: bool = False) -> dict:
    negatives = [] if only_b else [(A.passages[1], A.passage(1), 0.25)]
    negatives += [(B.passages[1], B.passage(1), 0.5)]
    ids, texts, scores = (list(column) for column in zip(*negatives, strict=True))
    other = B if d is B and n == 0 else A
    return {"query_id": d.queries[n], "query": "who", "positive_id": other.passages[0], "positive": other.passage(0),
            "negative_ids": ids, "negatives": texts, "negative_scores": scores}  # fmt: skip


def _model(store: Store, dataset: str, trained_on: Ref) -> Ref:
    params = get_step("finetune").parse({"size": "33m"}).identity()
    with store.temporary() as path:
        path.write_bytes(dataset.encode())
        part = write_file(store, path, "weights.bin")
    return _publish(store, dataset, FILES, "name", [part], (trained_on,), step="finetune", params=params)


def _leave_traces(store: Store) -> None:
    """What is no version: answers, among them one that no row names, memo, an orphaned part, scratch, an error."""
    for d in BOTH:
        for n, answer in enumerate(d.answers):
            for name in (answer, digest(answer), digest(answer, "its row was refused")):
                prompt = {"prompt": f"Write.\n\nPassage: {d.passage(n)}\nNeed:"}
                record = {"request": prompt, "response": {"text": "text"}, "cost_usd": 0.0, "salt": name}
                store.create(f"responses/{name[:2]}/{name}.json", json.dumps(record).encode())
    for ending, data in (("json", b"{}"), ("f32", b"\0\0\x80\x3f")):
        store.create(f"responses/{VECTORS[:2]}/{VECTORS}.{ending}", data)
    paid = {"needs": [answer for d in BOTH for answer in d.answers], "embeddings/m": [VECTORS]}
    for dataset, names in paid.items():
        (part,) = load_manifest(store, Ref.parse(dataset)).parts
        store.create(f"receipts/{part.sha256}.json", json.dumps({"responses": names}).encode())
    orphan = write_rows(store, PASSAGES.table([{"passage_id": A.passages[0], "text": A.passage(0)}]))
    for n, part in enumerate((orphan, write_rows(store, PASSAGES.table([{"passage_id": B.passages[0]}])))):
        record = Record(output=part, rejects=None, skipped={}, counters={})
        store.replace(f"memo/{n}.json", record.model_dump_json().encode())
    skipped = Record(output=part, rejects=None, skipped={"doc_id": [A.doc_id]}, counters={})
    store.replace("memo/skipped.json", skipped.model_dump_json().encode())
    facts = {"error": f"InputError: {A.url} and {A.doc_id} are wrong, {B.url} is not, nor {A.url}2"}
    EventLog(store, "crawl", "1").emit("FAIL", inputs={}, output=None, facts=facts)
    (store.scratch("crawl") / "body").write_text(A.text)


def take_down(store: Store, *asked: str) -> Erased:
    """Erase from a store whose rows have the pipeline's schemas."""
    return erase(store, asked, SCHEMAS)


def everything(store: Store) -> dict[str, bytes | None]:
    """Every key but the lists of erasures and locks, with its bytes."""
    folders = ("versions", "refs", "objects", "memo", "responses", "requests", "receipts")
    return {key: store.read(key) for folder in folders for key in store.keys(folder)}
