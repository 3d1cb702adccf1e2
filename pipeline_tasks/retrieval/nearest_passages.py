"""FRet: the passages of the corpus that are nearest to a query with its task, for an LLM to compare."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.memo import made_once
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import checked, lists, matrix
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGE_EMBEDDINGS, PASSAGES, RANKINGS
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.corpora import distinct_keys
from pipeline_tasks.retrieval.embed_pairs import AskParams, encoded_queries
from pipeline_tasks.retrieval.embed_passages import counting_costs, texts_of
from pipeline_tasks.retrieval.search import NO_KEY, Shard, search


class NearestPassagesParams(AskParams):
    """Which encoder, and how many passages."""

    depth: int = Field(20, ge=2, description="nearest passages per query (Gecko 3.2: N = 20)")


@step(
    reads={
        "pairs": From(INSTRUCTED_PAIRS, "mtp/fret/checked"),
        "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{model}"),
        "passages": PASSAGES,
    },
    writes=RANKINGS,
    kind="map",
    dataset="nearest/{model}",
    image="gpu",
    pool="gpu",
    memory_gib=6,
    secrets=("embeddings",),
)
def nearest_passages(rows: pa.Table, params: NearestPassagesParams, run: Run) -> pa.Table:
    """The ``depth`` nearest passages of each query, asked with its task, among those of the query's own split.

    Written positives are no passages here: a query is compared with what documents say. ``positive_score`` is the
    cosine of the passage that the query was written for, wherever it ranks.

    Source: Gecko 3.2, "LLM-based Positive and Negative Mining".

    Raises:
        InputError: a query's passage has no vector, a vector's passage is not there, or vectors are of other weights.
    """
    if rows.num_rows == 0:
        return RANKINGS.table()
    params.check_weights(run.inputs["embeddings"])
    corpus = _open(run.store, str(run.inputs["embeddings"].manifest.ref))
    queries = _queries(rows, params, run)
    split_of = _splits(corpus, run)
    found: list[list[str]] = [[]] * len(queries)
    cosines: list[np.ndarray] = [np.empty(0, np.float32)] * len(queries)
    for split in pc.unique(rows["split"]).to_pylist():
        mine = np.flatnonzero(pc.equal(rows["split"], split).to_numpy(zero_copy_only=False))
        keys, scores = _search(np.ascontiguousarray(queries[mine]), corpus, split_of == split, params.depth)
        for row, own, of_own in zip(mine, keys, scores, strict=True):
            there = own != NO_KEY
            found[row] = corpus.ids.take(pa.array(own[there])).to_pylist()
            cosines[row] = of_own[there]
    ranked = rows.select(["query_id", "passage_id", "doc_id", "intent"])
    ranked = ranked.append_column("passage_ids", pa.array(found, pa.list_(pa.string())))
    ranked = ranked.append_column("scores", pa.array(cosines, pa.list_(pa.float32())))
    return ranked.append_column("positive_score", _own_scores(queries, rows, corpus))


def _queries(rows: pa.Table, params: NearestPassagesParams, run: Run) -> np.ndarray:
    """Vectors of the queries, encoded once for all versions of the corpus; an endpoint's answers are stored anyway."""
    if run.part is None or is_served(get(params.model)):
        return _encoded(rows, params, run)
    encoding = {name: value for name, value in params.identity().items() if name != "depth"}
    words = [run.part.sha256, digest(rows["query_id"].to_pylist()), digest(encoding)]
    return matrix(made_once(run, words, lambda: pa.table({"vector": lists(_encoded(rows, params, run))}))["vector"])


def _encoded(rows: pa.Table, params: NearestPassagesParams, run: Run) -> np.ndarray:
    encoder = params.open(texts_of(rows, "query_id", "positive"), run)
    with run.progress(rows.num_rows, "queries") as meter, counting_costs(run, encoder, rows.num_rows):
        return encoded_queries(rows, encoder, meter.advance)


@dataclass(frozen=True)
class Corpus:
    """Passages to search.

    Attributes:
        ids: distinct passage ids in rising order; a key is a place in it, so that ties go by passage id.
        shards: vectors and keys of each part; of an id that comes twice the first is searched.
    """

    ids: pa.Array
    shards: list[Shard]


@lru_cache(maxsize=1)
def _open(store: Store, ref: str) -> Corpus:
    """The passages of this version of embeddings; those opened last stay in memory for the next part.

    Raises:
        InputError: a vector is zero or not finite.
    """
    parts = [part for part in Version.open(store, Ref.parse(ref)).parts(["passage_id", "embedding"]) if part.num_rows]
    ids, keys = distinct_keys([part["passage_id"].combine_chunks() for part in parts])
    of_parts = np.split(keys, np.cumsum([part.num_rows for part in parts])[:-1])
    vectors = [checked(matrix(part["embedding"]), part["passage_id"], ref) for part in parts]
    return Corpus(ids, list(zip(vectors, of_parts, strict=False)))


def _splits(corpus: Corpus, run: Run) -> np.ndarray:
    """The split of each passage of the corpus, by its key."""
    known = run.inputs["passages"].table(["passage_id", "split"])
    places = pc.index_in(corpus.ids, value_set=known["passage_id"].combine_chunks())
    if places.null_count:
        unknown = corpus.ids.filter(pc.is_null(places))[0].as_py()
        embedded, there = (run.inputs[name].manifest.ref for name in ("embeddings", "passages"))
        raise InputError(f"{embedded} has a vector of {unknown}, which is not in {there}: embed these passages")
    return known["split"].take(places).to_numpy()


def _search(queries: np.ndarray, corpus: Corpus, counts: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and cosines of the nearest passages that count, [n, depth]."""
    shards = [
        (vectors, np.where((keys >= 0) & counts[keys], keys, -1).astype(np.int32)) for vectors, keys in corpus.shards
    ]
    return search(queries, shards, min(depth, max(1, int(counts.sum()))))


def _own_scores(queries: np.ndarray, rows: pa.Table, corpus: Corpus) -> pa.Array:
    """The cosine of each query and the passage that it was written for."""
    from pipeline_tasks.retrieval.scan_kernels import dots

    keys = pc.index_in(rows["passage_id"].combine_chunks(), value_set=corpus.ids)
    if keys.null_count:
        lacking = rows["passage_id"].filter(pc.is_null(keys))[0]
        raise InputError(f"passage {lacking}, which a query was written for, has no vector: embed these passages")
    wanted, own = np.unique(keys.to_numpy(), return_inverse=True)
    vectors = np.empty((len(wanted), queries.shape[1]), np.float32)
    for of_shard, shard_keys in corpus.shards:
        held = np.flatnonzero(np.isin(shard_keys, wanted))
        vectors[np.searchsorted(wanted, shard_keys[held])] = of_shard[held]
    return pa.array(dots(queries, vectors, own[:, None].astype(np.int64))[:, 0])
