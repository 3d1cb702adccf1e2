"""A store with rankings of any number of queries, for measuring what comes after the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Manifest, Part, Ref, Removal
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.versions import commit, point
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS

MODEL = "planted"
DEPTH = 200
_BLOCK = 2048
_WORDS = np.array("the water flood storm fire shelter road after before county house people river level".split())


def plant(root: Path, n_queries: int, n_passages: int, n_words: int) -> LocalStore:
    """Passages, pairs, rankings of one model and agreed labels; every query's positive is its own generated one.

    Cosines fall from 0.95 to about 0.45 over 200 ranks, and the positive is at a random one of the first five.
    """
    store = LocalStore(root)
    chance = np.random.default_rng(n_queries)
    passages, positives = (names_of(n, salt) for n, salt in ((n_passages, 1), (n_queries, 2)))
    splits = np.array(["train", "dev", "test"])[chance.choice(3, n_passages, p=[0.8, 0.1, 0.1])]
    blocks = [slice(at, at + _BLOCK) for at in range(0, n_passages, _BLOCK)]
    put_blocks(store, PASSAGES, "passages", (
        {"passage_id": passages[b], "text": texts_of(passages[b], n_words), "split": splits[b].tolist()} for b in blocks
    ))  # fmt: skip
    queries = names_of(n_queries, 3)
    source = chance.integers(0, n_passages, n_queries)
    blocks = [slice(at, at + _BLOCK) for at in range(0, n_queries, _BLOCK)]
    put_blocks(store, PAIRS, "mtp", (
        {"query_id": queries[b], "query": [f"what about {q}?" for q in queries[b]], "positive_id": positives[b],
         "positive": texts_of(positives[b], n_words), "passage_id": [passages[i] for i in source[b]], "intent": "qa",
         "split": "train"} for b in blocks
    ))  # fmt: skip
    place = chance.integers(0, 5, n_queries)
    score = np.empty(n_queries, np.float32)
    corpus = pa.array(passages)

    def rankings() -> Iterator[dict]:
        for b in blocks:
            n = len(queries[b])
            scores = np.float32(0.95) - np.cumsum(chance.random((n, DEPTH), np.float32) * 0.005, axis=1)
            ids = corpus.take(pa.array(chance.integers(0, n_passages, n * DEPTH)))
            at = np.arange(n) * DEPTH + place[b]
            mask = np.zeros(n * DEPTH, bool)
            mask[at] = True
            ids = pa.compute.replace_with_mask(ids, pa.array(mask), pa.array(positives[b]))
            score[b] = scores[np.arange(n), place[b]]
            ends = pa.array(np.arange(n + 1, dtype=np.int32) * DEPTH)
            yield {
                "query_id": queries[b], "intent": "qa", "positive_score": score[b],
                "passage_ids": pa.ListArray.from_arrays(ends, ids),
                "scores": pa.ListArray.from_arrays(ends, pa.array(scores.ravel())),
            }  # fmt: skip

    put_blocks(store, RANKINGS, f"rankings/{MODEL}", rankings())
    intents = np.array(["qa", "qadoc", "twitter", "factcheck", "nli", "sts"])[np.arange(n_queries) % 6]
    put_blocks(store, LABELLED, "labelled", (
        {"query_id": queries[b], "query": [f"what about {q}?" for q in queries[b]], "positive_id": positives[b],
         "positive": texts_of(positives[b], n_words), "source_passage_id": [passages[i] for i in source[b]],
         "split": "train", "intent": intents[b].tolist(), "best_model": MODEL,
         "votes": [[{"model": MODEL, "passage_ids": [p], "positive_rank": int(r) + 1, "positive_score": float(s)}]
                   for p, r, s in zip(positives[b], place[b], score[b], strict=True)]} for b in blocks
    ))  # fmt: skip
    return store


def names_of(n: int, salt: int) -> list[str]:
    """Ids of 16 hex digits; another salt gives others."""
    words = np.random.default_rng(salt).integers(0, 1 << 63, n, dtype=np.uint64)
    return [f"{word:016x}" for word in words.tolist()]


def texts_of(names: list[str], n_words: int) -> list[str]:
    """A text of its own for each name, of words that repeat as words do."""
    words = np.random.default_rng(len(names)).choice(_WORDS, (len(names), n_words))
    return [f"{name} {' '.join(row)}" for name, row in zip(names, words, strict=True)]


def put_blocks(store: Store, schema: RowSchema, dataset: str, blocks: Iterator[dict]) -> None:
    """A version of ``dataset`` with a part per block of columns; a column left out is null, a string holds for all."""
    put_parts(store, schema, dataset, [write_block(store, schema, block) for block in blocks])


def write_block(store: Store, schema: RowSchema, block: dict) -> Part:
    """One part, as :func:`put_blocks` writes it."""
    n = len(block[schema.key])
    columns = [_column(block.get(f.name), n, f.type) for f in schema.arrow]
    return write_rows(store, pa.table(columns, schema=schema.arrow))


def put_parts(
    store: Store,
    schema: RowSchema,
    dataset: str,
    parts: Sequence[Part],
    removals: Sequence[Removal] = (),
    gone: int = 0,
) -> Ref:
    """A version of ``dataset`` with these parts, without ``gone`` rows that the removals name; the latest one."""
    manifest = Manifest(
        dataset=dataset, id=short_id([p.sha256 for p in [*parts, *(r.part for r in removals)]]), step="planted",
        code_version="1", rows_schema=schema.name, key=schema.key, params={}, inputs={},
        rows=sum(p.rows for p in parts) - gone, parts=list(parts), removals=list(removals),
    )  # fmt: skip
    commit(store, manifest)
    point(store, manifest.ref)
    return manifest.ref


def _column(values: object, n: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(n, kind)
    if isinstance(values, str):
        return pa.repeat(pa.scalar(values, kind), n)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
