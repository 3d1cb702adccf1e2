"""Lists to learn a ranking from: a few passages of each query's ranking, near ones and far ones, with their scores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import list_array, take_by_chunk
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, StepParams, added, step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.curation.rank_lists import By, Strategy, interval_ends, sample
from pipeline_tasks.curation.splits import split_numbers
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANK_LISTS, RANKINGS

_SHORTEST = 2
_NAMED = (
    "name it with --input rankings=DATASET@ID, as `foundry run` prints it: one that was there already does not become "
    "latest (`foundry point` makes it so)"
)
_NONE = np.empty(0, np.uint64)


class SampleRankListsParams(StepParams):
    """How deep a ranking is read, and how it is cut."""

    k: int = Field(200, ge=2, description="depth of the ranking that is sampled; the paper's: 1,000 to 4,000")
    m: int = Field(
        9,
        ge=2,
        description="passages per list, one per interval; with lead=own the source is one; paper: 6 to 10",
    )
    strategy: Strategy = Field("doubling", description="how interval widths grow from the first to the last")
    by: By = Field("rank", description="what is cut into intervals: the ranks, or the range of the scores")
    first: int = Field(3, ge=0, description="width of the first interval, in ranks; 0: as the strategy has it")
    n_lists: int = Field(1, ge=1, description="lists per query")
    lead: Literal["ranking", "own"] = added(
        "ranking",
        description="first passage: ranking: one of the first interval; own: the query's own source",
    )
    skip: int = added(3, ge=0, description="with lead=own: top ranks left out, whose passages may be relevant, too")


@step(
    reads={
        "rankings": From(RANKINGS, "rankings/bm25"),
        "pairs": From(PAIRS, "mtp/extracted"),
        "passages": PASSAGES,
    },
    writes=RANK_LISTS,
    kind="map",
    version="4",
    memory_gib=4,
)
def sample_rank_lists(rows: pa.Table, params: SampleRankListsParams, run: Run) -> pa.Table:
    """Cut each query's first ``k`` ranks into ``m`` intervals and draw a passage of each, by the query's id.

    Left out before the cut: passages of another split than the query's, so that held-out pages never enter training,
    and those whose score is 0, which BM25 gives where no word is shared. A query that is left with fewer than two is
    the reject ``short_list``.

    With ``lead`` ``own`` a list begins with the passage that the query is from, at the score of the ranking's first,
    and the other intervals are cut from what ranks behind the first ``skip`` others: hard negatives, spread over the
    ranking. No other is a passage with the text of what is known to answer the query: source passages and positives of
    all pairs with its text, as in :func:`~pipeline_tasks.curation.mine_negatives.mine_negatives`.

    Source: BMEmbed 3.2; its appendix D.2 for the defaults of ``strategy`` and ``first``, D.1 for several lists.

    Raises:
        InputError: the rankings are not as deep as ``k``, of other pairs, or of other passages.
    """
    source = run.inputs["rankings"].manifest
    if source.params.get("depth", params.k) < params.k:
        depth = source.params["depth"]
        remedy = f"rank with depth={params.k}, and {_NAMED}"
        raise InputError(f"k={params.k} of {source.ref}, which has {depth} ranks: {remedy}")
    texts, pairs, answers = _opened(run.store, *(str(run.inputs[name].manifest.ref) for name in ("passages", "pairs")))
    asked = _places(rows["query_id"].combine_chunks(), pairs.ids, f"{source.ref} ranks for a query that is no pair")
    ranked, scores = (rows[name].combine_chunks() for name in ("passage_ids", "scores"))
    places = _places(ranked.flatten(), texts.ids, f"{source.ref} ranks what is no passage here")
    ends, values = np.cumsum(pc.list_value_length(ranked).to_numpy()), scores.flatten().to_numpy()
    queries = pairs.rows.take(pa.array(asked))
    sources = _sources(queries, texts, str(run.inputs["pairs"].manifest.ref)) if params.lead == "own" else asked
    drawn = _Drawn()
    for row, query_id in enumerate(queries["query_id"].to_pylist()):
        start = ends[row - 1] if row else 0
        read = slice(start, min(ends[row], start + params.k))
        kept = (values[read] > 0) & (texts.splits[places[read]] == pairs.splits[asked[row]])
        found, found_scores = places[read][kept], values[read][kept]
        known = answers.of(pairs.hashes[asked[row]]) if params.lead == "own" else _NONE
        answering = np.isin(texts.hashes[found], known)
        lists = list(_lists(query_id, sources[row], answering, found, found_scores, params))
        if not lists or len(lists[0][0]) < _SHORTEST:
            run.reject(query_id, "short_list", _why(answering, params))
            continue
        for number, (own, own_scores) in enumerate(lists):
            drawn.add(short_id(query_id, number), row, own, own_scores)
    return drawn.table(queries, texts)


def _lists(
    query_id: str,
    source: int,
    answering: np.ndarray,
    places: np.ndarray,
    scores: np.ndarray,
    params: SampleRankListsParams,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places and scores of each list of a query, whose ranking is ``places`` [n] with ``scores`` [n].

    ``answering`` [n] says which places have the text of a known answer.
    """
    head, head_scores = places[:0], scores[:0]
    if params.lead == "own":
        behind = np.flatnonzero(~answering)[params.skip :]
        head, head_scores = np.array([source]), scores[:1]
        places, scores = places[behind], scores[behind]
    cut = interval_ends(scores, params.m - len(head), params.strategy, params.by, params.first)
    for ranks in sample(query_id, cut, params.n_lists):
        yield np.concatenate([head, places[ranks]]), np.concatenate([head_scores, scores[ranks]])


def _why(answering: np.ndarray, params: SampleRankListsParams) -> str:
    """What there was to draw a list from, and with ``lead`` ``own`` what took it away."""
    found = f"{len(answering)} passages of its split share a word with it"
    if params.lead == "ranking":
        return found
    return f"{found}, {answering.sum()} of them known to answer it; skip={params.skip} leaves none of the others"


class _Corpus(NamedTuple):
    """What rows are looked up in.

    Attributes:
        ids: of each row.
        splits: the place of its split among the splits.
        hashes: of its text, a passage's or a query's, uint64.
        rows: themselves.
    """

    ids: pa.Array
    splits: np.ndarray
    hashes: np.ndarray
    rows: pa.Table


class _Answers(NamedTuple):
    """What is known to answer the texts of queries: hashes of both, by rising hash of the query."""

    queries: np.ndarray
    passages: np.ndarray

    @classmethod
    def from_pairs(cls, pairs: _Corpus, texts: _Corpus) -> _Answers:
        """Source passages and positives of all pairs; a source passage that is not among the ``texts`` is left out."""
        found = [pc.index_in(pairs.rows[name], value_set=texts.ids) for name in ("passage_id", "positive_id")]
        queries = np.concatenate([pairs.hashes[column.is_valid().to_numpy()] for column in found])
        passages = np.concatenate([texts.hashes[column.drop_null().to_numpy()] for column in found])
        order = np.argsort(queries, kind="stable")
        return cls(queries[order], passages[order])

    def of(self, query: np.uint64) -> np.ndarray:
        """Hashes of the texts that answer a query's text."""
        first, last = (np.searchsorted(self.queries, query, side=side) for side in ("left", "right"))
        return self.passages[first:last]


@lru_cache(maxsize=1)
def _opened(store: Store, passages: str, pairs: str) -> tuple[_Corpus, _Corpus, _Answers]:
    """Passages and written positives by id with their texts, pairs, and what answers; the last ones stay in memory."""
    of_passages, of_pairs = (Version.open(store, Ref.parse(ref)) for ref in (passages, pairs))
    own = of_passages.table(["passage_id", "text", "split"])
    written = of_pairs.table(["positive_id", "positive", "split"]).rename_columns(own.column_names)
    asked = of_pairs.table(["query_id", "intent", "query", "split", "passage_id", "positive_id"])
    texts = _corpus(pa.concat_tables([own, written]), "text", of_passages)
    queries = _corpus(asked, "query", of_pairs)
    return texts, queries, _Answers.from_pairs(queries, texts)


def _corpus(rows: pa.Table, text: str, version: Version) -> _Corpus:
    splits = split_numbers(rows["split"], version)
    return _Corpus(rows.column(0).combine_chunks(), splits, text_hashes(rows[text]), rows)


def _sources(queries: pa.Table, texts: _Corpus, ref: str) -> np.ndarray:
    """The place of the passage that each query is from; of what was written for it where its passage is not here.

    Raises:
        InputError: neither is.
    """
    ours = pc.is_in(queries["passage_id"], value_set=texts.ids)
    ids = pc.if_else(ours, queries["passage_id"], queries["positive_id"])
    return _places(ids.combine_chunks(), texts.ids, f"{ref} has a pair without a passage here")


def _places(ids: pa.Array, known: pa.Array, unless: str) -> np.ndarray:
    """The place of each id among those ``known``; of one that is there twice the first.

    Raises:
        InputError: one is not there.
    """
    found = pc.index_in(ids, value_set=known)
    if found.null_count:
        unknown = ids.filter(pc.is_null(found))[0].as_py()
        raise InputError(f"{unless}: {unknown}; give the versions that were ranked, or rank again, and {_NAMED}")
    return found.to_numpy()


class _Drawn:
    """Lists as they are drawn, in columns."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._rows: list[int] = []
        self._places: list[np.ndarray] = []
        self._scores: list[np.ndarray] = []

    def add(self, list_id: str, row: int, places: np.ndarray, scores: np.ndarray) -> None:
        self._ids.append(list_id)
        self._rows.append(row)
        self._places.append(places)
        self._scores.append(scores)

    def table(self, queries: pa.Table, texts: _Corpus) -> pa.Table:
        """The lists with their texts, each of which is stored once."""
        if not self._ids:
            return RANK_LISTS.table()
        places, scores = np.concatenate(self._places), np.concatenate(self._scores)
        lengths = [*map(len, self._places)]
        distinct, codes = np.unique(places, return_inverse=True)
        shared = take_by_chunk(texts.rows["text"], distinct)
        shown = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), shared)
        of_queries = queries.take(pa.array(self._rows))
        return pa.table(
            {
                "list_id": self._ids,
                **{name: of_queries[name] for name in ("query_id", "intent", "query", "split")},
                "passage_ids": list_array(lengths, texts.ids.take(pa.array(places))),
                "passages": list_array(lengths, shown),
                "scores": list_array(lengths, pa.array(scores, pa.float32())),
            }
        )
