"""BM25 as one more ranker: its rankings are used wherever a model's are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.retrieval.bm25_shards import (
    count_shard,
    look_up_words,
    merge_block,
    search_shard,
    sum_frequencies,
)
from pipeline_tasks.retrieval.shards import corpora, distinct, hashes_of, ids_by_hash
from pipeline_tasks.texts.words import words_version


class RankBm25Params(StepParams):
    """Depth of the rankings, how words count, and how much a process holds."""

    depth: int = Field(200, ge=1, description="passages kept per query")
    k1: float = Field(1.5, ge=0, description="BM25 k1: term-frequency saturation; higher: repeated words count more")
    b: float = Field(0.75, ge=0, le=1, description="BM25 b: length normalisation; 0: none, 1: full")
    shard_passages: int = tuning(100_000, ge=1, description="passages that a process holds at a time")
    block_queries: int = tuning(8192, ge=1, description="queries that a process ranks at a time")

    def identity(self) -> dict[str, Any]:
        """The parameters, and the version of the library that takes words from texts."""
        return super().identity() | {"libraries": words_version()}


@step(
    reads={"pairs": From(PAIRS, "mtp"), "passages": PASSAGES, "positives": From(PAIRS, "mtp")},
    writes=RANKINGS,
    kind="partitioned",
    dataset="rankings/bm25",
    version="2",
    memory_gib=6,
)
def rank_bm25(inputs: Inputs, params: RankBm25Params, run: PartitionedRun) -> Iterator[Part]:
    """Rank the passages of a query's own corpus by BM25, generated positives among them; keep the best ``depth``.

    The scores are BM25's, not cosines: an alpha of the negatives is a share of another scale. Passages that share no
    word with the query have the score 0 and come in the order of their ids. Of an id that comes twice the first text
    counts. One part of rankings for each part of the pairs.

    Raises:
        InputError: there are queries and no passages.
    """
    given = pieces({name: inputs[name] for name in ("passages", "positives")}, params.shard_passages)
    blocks = pieces({"pairs": inputs["pairs"]}, params.block_queries)
    found: list[dict[str, list[Part]]] = [{} for _ in blocks]
    for corpus, n_queries in corpora(blocks).items():
        of_it = [blocks[at] for at in n_queries]
        for at, parts in zip(n_queries, _searched(given, of_it, corpus, params, run), strict=True):
            found[at][corpus] = parts
    depth = {"depth": params.depth}
    for parts in run.spread(
        merge_block, [Partition(*one, depth) for one in zip(blocks, found, strict=True)], final=True
    ):
        yield from parts


def _searched(
    given: Sequence[dict], blocks: Sequence[dict], corpus: str, params: RankBm25Params, run: PartitionedRun
) -> Iterator[list[Part]]:
    """For every block of queries the best passages of each shard of one corpus."""
    shards, frequencies = _counted(given, corpus, run)
    n_passages = sum(passages.rows for passages, _ in shards)
    if not n_passages:
        raise InputError(f"BM25 over no passages of the corpus {corpus or 'domain'}: give at least one")
    values = {"corpus": corpus, "depth": params.depth, "k1": params.k1, "b": params.b, "n_passages": n_passages}
    values |= {"libraries": words_version()}
    values["mean_length"] = _n_words(run.store, shards) / n_passages
    of = {"corpus": corpus, "libraries": words_version()}
    asked = run.spread(look_up_words, [Partition(b, {"frequencies": frequencies}, of) for b in blocks], lasting=False)
    searches = [
        Partition(block, {"passages": [passages], "postings": [postings], "words": words}, values)
        for block, words in zip(blocks, asked, strict=True)
        for passages, postings in shards
    ]
    found = iter(run.spread(search_shard, searches, lasting=False))
    return ([next(found)[0] for _ in shards] for _ in blocks)


def _counted(given: Sequence[dict], corpus: str, run: PartitionedRun) -> tuple[list[tuple[Part, Part]], list[Part]]:
    """Passages and postings of every shard that has any, and the frequencies of words, a table for each hash."""
    hashes = hashes_of(given)
    shards = distinct(given, ids_by_hash(given, corpus, hashes, run), run)
    values = {"corpus": corpus, "hashes": hashes, "libraries": words_version()}
    counted = run.spread(count_shard, [Partition(one.rows, {"repeats": one.left_out}, values) for one in shards])
    words = zip(*(tables[2:] for tables in counted), strict=True)
    summed = run.spread(sum_frequencies, [Partition(parts={"words": tables}) for tables in words])
    return [(tables[0], tables[1]) for tables in counted], [table for (table,) in summed]


def _n_words(store: Store, shards: Sequence[tuple[Part, Part]]) -> int:
    return sum(sum(read_part(store, passages, ["n_words"])["n_words"].to_pylist()) for passages, _ in shards)
