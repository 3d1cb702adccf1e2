"""BM25 in a corpus too large for one process: partitions of ``rank_bm25``.

Words are counted shard by shard, and a shard is searched with the frequencies of the whole corpus, so that a passage
has the score that one index over all would give it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import offsets
from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.datasets import RANKINGS
from pipeline_tasks.retrieval.bm25 import Index, Postings, count_words
from pipeline_tasks.retrieval.shards import (
    ASKED,
    KEYS,
    Merged,
    by_hash,
    found_table,
    joined,
    part_rows,
    queries_of_corpus,
)
from pipeline_tasks.texts.words import tokenized

_TEXTS = {"passages": "text", "positives": "positive"}


def count_shard(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Passages of a shard in the order of their ids, its postings, and frequencies, a table for each hash of a word."""
    repeats = joined(run.store, given.parts["repeats"])["row"].to_numpy()
    corpus = _texts(given.rows, given.values["corpus"])
    corpus = corpus.take(pa.array(np.setdiff1d(np.arange(len(corpus)), repeats)))
    corpus = corpus.take(pc.sort_indices(corpus["passage_id"]))
    found = count_words(corpus["text"].to_pylist())
    yield pa.table({"passage_id": corpus["passage_id"], "n_words": pa.array(found.lengths)})
    begins = pa.array(found.begins.astype(np.int32))
    columns = {name: pa.ListArray.from_arrays(begins, pa.array(getattr(found, name))) for name in ("places", "counts")}
    yield pa.table({"word": found.words, **columns})
    words = pa.table({"word": found.words, "n_passages": pa.array(found.frequencies.astype(np.int64))})
    yield from by_hash(words, given.values["hashes"])


def sum_frequencies(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Words of one hash and the passages of the whole corpus that hold each."""
    words = joined(run.store, given.parts["words"])
    summed = words.group_by("word").aggregate([("n_passages", "sum")])
    yield summed.rename_columns(["word", "n_passages"]).sort_by("word")


def look_up_words(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Frequencies of the words that a block of queries asks for."""
    queries = queries_of_corpus(given, ["query"])["query"].to_pylist()
    words = pa.array(sorted(tokenized(queries)[0]), pa.string())
    tables = (read_part(run.store, part) for part in given.parts["frequencies"])
    yield pa.concat_tables(table.filter(pc.is_in(table["word"], words)) for table in tables).sort_by("word")


def search_shard(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The best passages of one shard for each query of a block, and its own positive's score where it is in it."""
    passages, postings, words = (joined(run.store, given.parts[name]) for name in ("passages", "postings", "words"))
    ids = passages["passage_id"].combine_chunks()
    pairs = queries_of_corpus(given, ["query", "positive_id"])
    own = pc.index_in(pairs["positive_id"], value_set=ids).fill_null(-1).to_numpy()
    depth = min(given.values["depth"], len(ids))
    found = _index(passages, postings, words, given).search(pairs["query"].to_pylist(), depth, own)
    best = found_table(ids.take(pa.array(found.indices.ravel())), found.scores)
    yield best.append_column("positive_score", pa.array(found.own_scores))


def merge_block(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Rankings of a block of queries, the best of all shards, one table for each part of the queries."""
    best = Merged(run.store, given.parts, given.values["depth"])
    if not given.rows["pairs"].version.manifest.parts:
        yield RANKINGS.table()
    for rows in given.rows["pairs"].tables(ASKED):
        run.count("queries_searched", len(rows))
        yield best.ranked(rows) if len(rows) else RANKINGS.table()


def _index(passages: pa.Table, postings: pa.Table, words: pa.Table, given: Partition) -> Index:
    """The index of a shard as far as a block of queries asks for its words."""
    at = pc.index_in(postings["word"], value_set=words["word"].combine_chunks())
    postings = postings.filter(at.is_valid()).combine_chunks()
    frequencies = words["n_passages"].take(at.drop_null()).to_numpy()
    places, counts = (postings[name].combine_chunks() for name in ("places", "counts"))
    begins = offsets(pc.list_value_length(places).to_numpy())
    known = Postings(
        postings["word"].combine_chunks(), begins, places.flatten().to_numpy(), counts.flatten().to_numpy(),
        passages["n_words"].to_numpy(),
    )  # fmt: skip
    return Index(known, frequencies, **{name: given.values[name] for name in ("n_passages", "mean_length", "k1", "b")})


def _texts(rows: Mapping[str, Rows], corpus: str) -> pa.Table:
    """Ids and texts of a shard's passages."""
    tables = [part.read(KEYS[part.name], _TEXTS[part.name]) for part in part_rows(rows, corpus)]
    return pa.concat_tables(table.rename_columns(["passage_id", "text"]) for table in tables).combine_chunks()
