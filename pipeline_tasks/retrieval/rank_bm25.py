"""BM25 as one more ranker: its rankings are used wherever a model's are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import lists
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.corpus import DOMAIN, by_corpus

_SEARCHED_AT_ONCE = 8192


class RankBm25Params(StepParams):
    """Depth of the rankings, and how words count."""

    depth: int = Field(200, ge=1, description="passages kept per query")
    k1: float = Field(1.5, ge=0, description="how slowly a word's score levels off as it comes again in a passage")
    b: float = Field(0.75, ge=0, le=1, description="how much words of a long passage count less: 0 not at all")


@step(
    reads={"pairs": From(PAIRS, "mtp"), "passages": PASSAGES, "positives": From(PAIRS, "mtp")},
    writes=RANKINGS,
    kind="map",
    dataset="rankings/bm25",
    version="2",
    memory_gib=6,
)
def rank_bm25(rows: pa.Table, params: RankBm25Params, run: Run) -> pa.Table:
    """Rank the passages of a query's own corpus by BM25, generated positives among them; keep the best ``depth``.

    The scores are BM25's, not cosines: an alpha of the negatives is a share of another scale. Passages that share no
    word with the query have the score 0 and come in the order of their ids.
    """
    if rows.num_rows == 0:
        return RANKINGS.table()
    refs = (str(run.inputs[name].manifest.ref) for name in ("passages", "positives"))
    indexes = _opened(run.store, *refs, k1=params.k1, b=params.b)
    ranked, places = [], []
    with run.progress(rows.num_rows, "queries") as meter:
        for name, which in by_corpus(rows):
            for at in range(0, len(which), _SEARCHED_AT_ONCE):
                block = which[at : at + _SEARCHED_AT_ONCE]
                ranked.append(_ranked(rows.take(pa.array(block)), *indexes[name], params.depth))
                places.append(block)
                meter.advance(len(block))
    run.count("queries_searched", rows.num_rows)
    return pa.concat_tables(ranked).take(pa.array(np.argsort(np.concatenate(places))))


def _ranked(rows: pa.Table, ids: pa.Array, index: Bm25, depth: int) -> pa.Table:
    """Rows of rankings for queries of one corpus."""
    own = pc.index_in(rows["positive_id"], value_set=ids).fill_null(-1).to_numpy()
    depth = min(depth, len(ids))
    found = index.search(rows["query"].to_pylist(), depth, own)
    ends = pa.array(np.arange(rows.num_rows + 1, dtype=np.int32) * depth)
    names = ids.take(pa.array(found.indices.ravel()))
    ranked = rows.select(["query_id", "passage_id", "doc_id", "intent"])
    ranked = ranked.append_column("passage_ids", pa.ListArray.from_arrays(ends, names))
    return ranked.append_column("scores", lists(found.scores)).append_column(
        "positive_score", pa.array(found.own_scores)
    )


@lru_cache(maxsize=1)
def _opened(store: Store, passages: str, positives: str, *, k1: float, b: float) -> dict[str, tuple[pa.Array, Bm25]]:
    """By corpus: distinct passage ids in rising order, and the index over their texts; those of the last call stay."""
    ours = Version.open(store, Ref.parse(passages)).table(["passage_id", "text"])
    pairs = Version.open(store, Ref.parse(positives)).table(["positive_id", "positive", "passage_id", "origin"])
    texts = {DOMAIN: [ours]} if ours.num_rows else {}
    for name, which in by_corpus(pairs):
        some = pairs.select(["positive_id", "positive"]).take(pa.array(which))
        texts.setdefault(name, []).append(some.rename_columns(ours.column_names))
    return {name: _index(pa.concat_tables(found), k1, b) for name, found in texts.items()}


def _index(corpus: pa.Table, k1: float, b: float) -> tuple[pa.Array, Bm25]:
    ids = corpus["passage_id"].combine_chunks()
    _, first = np.unique(np.array(ids.to_pylist(), dtype=object), return_index=True)
    return ids.take(pa.array(first)), Bm25(corpus["text"].take(pa.array(first)).to_pylist(), k1, b)
