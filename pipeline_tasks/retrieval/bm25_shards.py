"""BM25 over a corpus that nobody holds: partitions of ``rank_bm25``.

Words are counted shard by shard, and a shard is searched with the frequencies of the whole corpus, so that a passage
has the score that one index over all would give it. The best of all shards, equal scores by passage id, are the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import lists, matrix
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.datasets import RANKINGS
from pipeline_tasks.retrieval.bm25 import Index, Postings, count_words, tokenized
from pipeline_tasks.retrieval.corpus import DOMAIN, by_corpus, distinct_keys
from pipeline_tasks.retrieval.search import merge

_COLUMNS = ("passage_id", "text")
_OF_CORPUS = ["passage_id", "origin"]


def name_passages(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Ids of a shard's passages and their rows in it, one table for each hash of an id."""
    ids = _corpus(given.rows, given.values["corpus"], 1)["passage_id"]
    rows = pa.array(np.arange(len(ids), dtype=np.int32))
    yield from _by_hash(pa.table({"passage_id": ids, "row": rows}), given.values["hashes"])


def find_repeats(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Of ids of one hash, the rows of each shard whose id comes in an earlier row or shard."""
    shards = [read_part(run.store, part) for part in given.parts["ids"]]
    _, keys = distinct_keys([shard["passage_id"].combine_chunks() for shard in shards])
    at = 0
    for shard in shards:
        yield shard.select(["row"]).filter(pa.array(keys[at : at + len(shard)] < 0))
        at += len(shard)


def count_shard(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Passages of a shard in the order of their ids, its postings, and frequencies, a table for each hash of a word."""
    repeats = _joined(run.store, given.parts["repeats"])["row"].to_numpy()
    corpus = _corpus(given.rows, given.values["corpus"], 2)
    corpus = corpus.take(pa.array(np.setdiff1d(np.arange(len(corpus)), repeats)))
    corpus = corpus.take(pc.sort_indices(corpus["passage_id"]))
    found = count_words(corpus["text"].to_pylist())
    yield pa.table({"passage_id": corpus["passage_id"], "n_words": pa.array(found.lengths)})
    begins = pa.array(found.begins.astype(np.int32))
    held = {name: pa.ListArray.from_arrays(begins, pa.array(getattr(found, name))) for name in ("places", "counts")}
    yield pa.table({"word": found.words, **held})
    words = pa.table({"word": found.words, "n_passages": pa.array(found.frequencies.astype(np.int64))})
    yield from _by_hash(words, given.values["hashes"])


def sum_frequencies(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Words of one hash and the passages of the whole corpus that hold each."""
    words = _joined(run.store, given.parts["words"])
    summed = words.group_by("word").aggregate([("n_passages", "sum")])
    yield summed.rename_columns(["word", "n_passages"]).sort_by("word")


def look_up_words(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Frequencies of the words that a block of queries asks for."""
    queries = _block(given, ["query"])["query"].to_pylist()
    asked = pa.array(sorted(tokenized(queries)[0]), pa.string())
    tables = (read_part(run.store, part) for part in given.parts["frequencies"])
    yield pa.concat_tables(table.filter(pc.is_in(table["word"], asked)) for table in tables).sort_by("word")


def search_shard(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The best passages of one shard for each query of a block, and its own positive's score where it is in it."""
    passages, postings, words = (_joined(run.store, given.parts[name]) for name in ("passages", "postings", "words"))
    ids = passages["passage_id"].combine_chunks()
    pairs = _block(given, ["query", "positive_id"])
    own = pc.index_in(pairs["positive_id"], value_set=ids).fill_null(-1).to_numpy()
    depth = min(given.values["depth"], len(ids))
    found = _index(passages, postings, words, given).search(pairs["query"].to_pylist(), depth, own)
    best = _lists(ids.take(pa.array(found.indices.ravel())), depth)
    yield pa.table({"passage_ids": best, "scores": lists(found.scores), "positive_score": pa.array(found.own_scores)})


def merge_block(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Rankings of a block of queries, the best of all shards, one table for each part of the queries."""
    best = {name: _best(run.store, parts, given.values["depth"]) for name, parts in given.parts.items()}
    at = Counter[str]()
    for rows in given.rows["pairs"].tables(["query_id", "passage_id", "doc_id", "intent", "origin"]):
        if not len(rows):
            yield RANKINGS.table()
            continue
        ranked, places = [], []
        for name, which in by_corpus(rows):
            ranked.append(best[name].slice(at[name], len(which)))
            places.append(which)
            at[name] += len(which)
        found = pa.concat_tables(ranked).take(pa.array(np.argsort(np.concatenate(places)))).combine_chunks()
        for name in found.column_names:
            rows = rows.append_column(name, found[name])
        yield rows.drop_columns(["origin"])
    run.count("queries_searched", at.total())


def _best(store: Store, parts: Sequence[Part], depth: int) -> pa.Table:
    shards = (read_part(store, part) for part in parts)
    best = next(shards)
    for shard in shards:
        best = _better(best, shard, depth)
    return best


def _better(one: pa.Table, two: pa.Table, depth: int) -> pa.Table:
    """The best ``depth`` of two searches of the same queries in different shards; equal scores by passage id."""
    n, ids = len(one), [table["passage_ids"].combine_chunks().flatten() for table in (one, two)]
    coded = pa.chunked_array(ids).combine_chunks().dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    places = np.empty(len(order), np.int32)
    places[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    keys = np.split(places[coded.indices.to_numpy()], [len(ids[0])])
    found = [(key.reshape(n, -1), matrix(t["scores"])) for key, t in zip(keys, (one, two), strict=True)]
    best, scores = merge(found, depth)
    names = coded.dictionary.take(order).take(pa.array(best.ravel()))
    own = [table["positive_score"].to_numpy() for table in (one, two)]
    return pa.table({
        "passage_ids": _lists(names, best.shape[1]), "scores": lists(scores),
        "positive_score": pa.array(np.where(np.isnan(own[0]), own[1], own[0])),
    })  # fmt: skip


def _index(passages: pa.Table, postings: pa.Table, words: pa.Table, given: Partition) -> Index:
    """The index of a shard as far as a block of queries asks for its words."""
    at = pc.index_in(postings["word"], value_set=words["word"].combine_chunks())
    postings = postings.filter(at.is_valid()).combine_chunks()
    frequencies = words["n_passages"].take(at.drop_null()).to_numpy()
    places, counts = (postings[name].combine_chunks() for name in ("places", "counts"))
    begins = np.cumsum([0, *pc.list_value_length(places).to_pylist()])
    held = Postings(
        postings["word"].combine_chunks(), begins, places.flatten().to_numpy(), counts.flatten().to_numpy(),
        passages["n_words"].to_numpy(),
    )  # fmt: skip
    return Index(held, frequencies, **{name: given.values[name] for name in ("n_passages", "mean_length", "k1", "b")})


def _corpus(rows: Mapping[str, Rows], corpus: str, n_columns: int) -> pa.Table:
    """Ids, and texts where two columns are asked for, of passages and then of positives, as far as they are of it."""
    names = _COLUMNS[:n_columns]
    tables = [pa.table({name: pa.array([], pa.string()) for name in names})]
    if corpus == DOMAIN:
        tables += rows["passages"].tables(list(names))
    columns = ["positive_id", "positive"][:n_columns]
    for table in rows["positives"].tables([*columns, *_OF_CORPUS]):
        tables.append(table.take(pa.array(_places(table, corpus))).select(columns).rename_columns(names))
    return pa.concat_tables(tables).combine_chunks()


def _block(given: Partition, columns: list[str]) -> pa.Table:
    """Queries of one corpus."""
    wanted = [*columns, *(name for name in _OF_CORPUS if name not in columns)]
    found = pa.concat_tables(given.rows["pairs"].tables(wanted)).combine_chunks()
    return found.take(pa.array(_places(found, given.values["corpus"]))).select(columns).combine_chunks()


def _places(pairs: pa.Table, corpus: str) -> np.ndarray:
    """Rows of one corpus."""
    return dict(by_corpus(pairs)).get(corpus, np.empty(0, np.int64)) if len(pairs) else np.empty(0, np.int64)


def _joined(store: Store, parts: Sequence[Part]) -> pa.Table:
    return pa.concat_tables(read_part(store, part) for part in parts)


def _by_hash(table: pa.Table, n: int) -> Iterator[pa.Table]:
    """The rows of ``table`` by the hash of the text in its first column, a table for each of ``n`` hashes."""
    hashes = np.array([crc32(text.encode()) % n for text in table.column(0).to_pylist()], np.int64)
    for one in range(n):
        yield table.filter(pa.array(hashes == one))


def _lists(values: pa.Array, width: int) -> pa.ListArray:
    n = len(values) // width
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * width), values)
