"""Rankings: the passages of its corpus ranked for every query by one reference model; exact, ties by passage id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.earlier import earlier
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, step, tuning
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS, RANKINGS
from pipeline_tasks.retrieval.earlier_rankings import Earlier, fill_in, find_new, spare_key, take_over
from pipeline_tasks.retrieval.embed_params import EmbedParams
from pipeline_tasks.retrieval.shards import KEYS, Shard, corpora, distinct, hashes_of, ids_by_hash, without
from pipeline_tasks.retrieval.vector_shards import rank_block, search_shard, spare_block, with_vectors


class RankPassagesParams(EmbedParams):
    """Depth of the rankings, how they are searched, and how much a process holds."""

    depth: int = Field(200, ge=1, description="passages kept per query (DMRetriever 3.4.3)")
    index: Literal["exact", "torch", "faiss", "ivf", "hnsw"] = Field(
        "exact",
        description="exact; torch: the same, on a GPU where there is one; faiss: the same; ivf, hnsw: approximate",
    )
    recall: float = Field(
        0.95, gt=0, le=1, description="target recall of ivf and hnsw, which are tuned to it on a sample"
    )
    shard_passages: int = tuning(100_000, ge=1, description="passages that a process holds at a time")
    spare: int = tuning(56, ge=0, description="passages beyond depth that are kept, so that a refresh may lose as many")
    block_queries: int = tuning(8192, ge=1, description="queries that a process ranks at a time")

    def identity(self) -> dict[str, Any]:
        """All but what gives the same rankings: who searches exactly, and recall and sizes where search is exact."""
        found = super().identity()
        if self.index not in ("ivf", "hnsw"):
            return found | {"index": "exact", "recall": 1.0}
        return found | {"shard_passages": self.shard_passages, "block_queries": self.block_queries}


@step(
    reads={
        "queries": From(PAIR_EMBEDDINGS, "query_embeddings/{model}"),
        "passages": From(PASSAGE_EMBEDDINGS, "embeddings/{model}"),
        "positives": From(PAIR_EMBEDDINGS, "query_embeddings/{model}"),
    },
    writes=RANKINGS,
    kind="partitioned",
    dataset="rankings/{model}",
    version="4",
    memory_gib=2,
)
def rank_passages(inputs: Inputs, params: RankPassagesParams, run: PartitionedRun) -> Iterator[Part]:
    """Rank the passages of a query's own corpus for it, generated positives among them, and keep the best ``depth``.

    Generated positives are domain passages too (DMRetriever, figure 2), so that a query's own positive competes; its
    cosine is kept wherever it ranks. Pairs without a passage of ours are ranked among the positives of their origin,
    and no other query sees these (:mod:`~pipeline_tasks.retrieval.corpora`). Of an id that comes twice the first vector
    counts. A query that the latest version ranked is searched among new passages alone, unless so many are gone that
    its old ranking and the ``spare`` passages beyond it are too few (exact search; the rows are those of a full one).
    One part of rankings for each part of the queries; a query that the model was not asked has no vector, and no row.

    Raises:
        InputError: there are queries and no passages, or a vector is zero, not finite, of another width than others, or
            of other weights than run here.
    """
    params.check_weights(*(inputs[name] for name in ("queries", "passages", "positives")))
    queries = with_vectors(inputs["queries"])
    search = _Search(inputs, queries, params, run)
    found: list[dict[str, list[Part]]] = [{} for _ in search.blocks]
    for corpus, n_queries in corpora(search.blocks).items():
        for at, parts in search.best_of(corpus, n_queries).items():
            found[at][corpus] = parts
    sizes = {"depth": params.depth, "spare": search.spare}
    blocks = [Partition(block, parts, sizes) for block, parts in zip(search.blocks, found, strict=True)]
    ranked = list(chain.from_iterable(run.spread(rank_block, blocks, final=True)))
    if search.spare:
        search.keep_spare(ranked, blocks, [inputs[name].manifest.id for name in KEYS])
    yield from ranked


class _Search:
    """Shards of passages, searched for blocks of queries."""

    def __init__(self, inputs: Inputs, queries: Version, params: RankPassagesParams, run: PartitionedRun) -> None:
        self._params, self._run = params, run
        exact = params.identity()["index"] == "exact"
        self.spare = params.spare if exact else 0
        self._given = pieces({name: inputs[name] for name in ("passages", "positives")}, params.shard_passages)
        self.blocks = pieces({"pairs": queries}, params.block_queries)
        self._before = Earlier.of(earlier(run.store, rank_passages, params)) if exact else None

    def keep_spare(self, ranked: Sequence[Part], blocks: Sequence[Partition], inputs: Sequence[str]) -> None:
        """Leave what is known beyond parts of rankings to the next refresh, and give up what the last one has left."""
        known = chain.from_iterable(self._run.spread(spare_block, blocks, lasting=False))
        left = {spare_key(part, inputs): [spare] for part, spare in zip(ranked, known, strict=True)}
        for key, tables in left.items():
            self._run.leave(key, tables)
        before = map(self._before.spare_key, self._before.ranked.values()) if self._before else ()
        self._run.give_up(key for key in before if key not in left)

    def best_of(self, corpus: str, n_queries: Mapping[int, int]) -> dict[int, list[Part]]:
        """Block -> the tables that hold the best passages of one corpus, of those that have so many queries of it.

        Raises:
            InputError: it has no passages.
        """
        hashes = hashes_of(self._given)
        ids = ids_by_hash(self._given, corpus, hashes, self._run)
        shards = distinct(self._given, ids, self._run)
        if not shards:
            raise InputError(f"there are no vectors of passages of the corpus {corpus or 'domain'}: embed at least one")
        n = sum(shard.n for shard in shards)
        of = {"depth": min(self._params.depth + self.spare, n)}
        taken = self._taken_over(self._before, list(n_queries), corpus, ids, n) if self._before else {}
        sure = {at: tables[0] for at, tables in taken.items()}
        rest = {at: tables[1] for at, tables in taken.items()}
        self._run.count("queries_searched", sum(n_queries.values()) - sum(part.rows for part in sure.values()))
        todo = [at for at in n_queries if at not in rest or rest[at].rows]
        found = {at: [part] for at, part in sure.items()} | self._searched(shards, todo, corpus, rest)
        both = [at for at in todo if at in taken]
        given = [
            Partition(parts={"sure": [best], "queries": [others], "rows": [rows], "found": found[at]}, values=of)
            for at in both
            for best, others, rows in [taken[at]]
        ]
        return found | dict(zip(both, self._run.spread(fill_in, given, lasting=False), strict=True))

    def _searched(
        self, shards: Sequence[Shard], blocks: Sequence[int], corpus: str, rows: Mapping[int, Part]
    ) -> dict[int, list[Part]]:
        """Block -> what every shard has for it, or for those ``rows`` of it; a shard after the other."""
        values = {"corpus": corpus, "depth": self._params.depth + self.spare}
        values |= {name: getattr(self._params, name) for name in ("index", "recall")}
        some = {at: {"queries": [rows[at]]} if at in rows else {} for at in blocks}
        given = [
            Partition({**shard.rows, **self.blocks[at]}, {"left_out": shard.left_out, **some[at]}, values)
            for shard in shards
            for at in blocks
        ]
        found = [part for (part,) in self._run.spread(search_shard, given, lasting=False)]
        return {at: found[place :: len(blocks)] for place, at in enumerate(blocks)}

    def _taken_over(
        self, before: Earlier, blocks: Sequence[int], corpus: str, ids: Sequence[Sequence[Part]], n_passages: int
    ) -> dict[int, list[Part]]:
        """Block -> what :func:`take_over` makes of it, of those with queries that were ranked before."""
        params, asked = self._params, self._params.depth
        known = {at: ranked for at in blocks if (ranked := before.rankings_of(self.blocks[at]["pairs"]))}
        if not known:
            return {}
        old = ids_by_hash(before.shards(params.shard_passages), corpus, len(ids[0]), self._run)
        of_hashes = [
            Partition(parts={"ids": now, "before": then})
            for now, then in zip(zip(*ids, strict=True), zip(*old, strict=True), strict=True)
        ]
        compared = list(zip(*self._run.spread(find_new, of_hashes, lasting=False), strict=True))
        gone = compared.pop()
        found = self._searched(without(self._given, ids, compared), list(known), corpus, {})
        sizes = {"asked": asked, "depth": min(asked, n_passages), "wide": min(asked + self.spare, n_passages)}
        given = []
        for at, ranked in known.items():
            keys = [before.spare_key(part) for part in ranked.values()]
            beyond = dict(zip(ranked, self._run.left(keys), strict=True))
            kept = {number: tables[0] for number, tables in beyond.items() if tables}
            parts = {"ranked": list(ranked.values()), "spare": list(kept.values()), "gone": gone, "found": found[at]}
            common = {"corpus": corpus, "known": list(ranked), "spared": list(kept)}
            given.append(Partition(self.blocks[at], parts, common | sizes))
        return dict(zip(known, self._run.spread(take_over, given, lasting=False), strict=True))
