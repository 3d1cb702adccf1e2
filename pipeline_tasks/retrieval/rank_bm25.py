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
    memory_gib=6,
)
def rank_bm25(rows: pa.Table, params: RankBm25Params, run: Run) -> pa.Table:
    """Rank PDF passages and generated positives alike for every query by BM25, keep the best ``depth``.

    The scores are BM25's, not cosines: an alpha of the negatives is a share of another scale. Passages that share no
    word with the query have the score 0 and come in the order of their ids.
    """
    if rows.num_rows == 0:
        return RANKINGS.table()
    refs = (str(run.inputs[name].manifest.ref) for name in ("passages", "positives"))
    ids, index = _opened(run.store, *refs, k1=params.k1, b=params.b)
    own = pc.index_in(rows["positive_id"], value_set=ids).fill_null(-1).to_numpy()
    queries = rows["query"].to_pylist()
    depth = min(params.depth, len(ids))
    keys, scores, own_scores = [], [], []
    with run.progress(len(queries), "queries") as meter:
        for at in range(0, len(queries), _SEARCHED_AT_ONCE):
            block = slice(at, at + _SEARCHED_AT_ONCE)
            found = index.search(queries[block], depth, own[block])
            keys.append(ids.take(pa.array(found.indices.ravel())))
            scores.append(found.scores)
            own_scores.append(found.own_scores)
            meter.advance(len(found.indices))
    run.count("queries_searched", len(queries))
    ends = pa.array(np.arange(len(queries) + 1, dtype=np.int32) * depth)
    ranked = rows.select(["query_id", "passage_id", "doc_id", "intent"])
    ranked = ranked.append_column("passage_ids", pa.ListArray.from_arrays(ends, pa.concat_arrays(keys)))
    ranked = ranked.append_column("scores", lists(np.concatenate(scores)))
    return ranked.append_column("positive_score", pa.array(np.concatenate(own_scores)))


@lru_cache(maxsize=1)
def _opened(store: Store, passages: str, positives: str, *, k1: float, b: float) -> tuple[pa.Array, Bm25]:
    """Distinct passage ids in rising order and the index over their texts; the last one opened stays in memory."""
    tables = [
        Version.open(store, Ref.parse(ref)).table(columns).rename_columns(["passage_id", "text"])
        for ref, columns in ((passages, ["passage_id", "text"]), (positives, ["positive_id", "positive"]))
    ]
    corpus = pa.concat_tables(tables)
    ids = corpus["passage_id"].combine_chunks()
    _, first = np.unique(np.array(ids.to_pylist(), dtype=object), return_index=True)
    return ids.take(pa.array(first)), Bm25(corpus["text"].take(pa.array(first)).to_pylist(), k1, b)
