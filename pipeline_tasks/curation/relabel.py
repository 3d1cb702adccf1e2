"""FRet, second half: which of a query's nearest passages is its best, by an LLM that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.causal_scorer import CausalScorer, Precision
from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES, RANKINGS, RELABELLED
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.models import use
from pipeline_tasks.models.start import Start, start_of
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.fusion import USUAL_K, fuse


class RelabelParams(StepParams):
    """Whose nearest passages, and which model compares them."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder whose nearest passages are compared")
    scorer: str = Field(
        "qwen3-0.6b", description="causal model that compares: a name of `foundry models`, or the path of its folder"
    )
    precision: Precision = Field("float32", description="arithmetic of the scorer; bfloat16 for GPUs")
    passage_chars: int = Field(1_500, ge=100, description="characters of a passage that the scorer reads")
    k: int = Field(USUAL_K, ge=1, description="of the reciprocal rank fusion of both scores")
    batch_size: int = tuning(16, ge=1, description="passages that the scorer reads at once")

    @cached_property
    def start(self) -> Start:
        """The scorer, as it was when it was first asked for."""
        return start_of(self.scorer)

    def identity(self) -> dict[str, Any]:
        """The parameters, what the scorer's weights are wherever they lie, and what the prompts say."""
        return super().identity() | {"scorer": self.start.identity(), "prompts_sha256": prompts.sha256()}

    def licences(self) -> dict[str, str]:
        """Those of the scorer's weights."""
        return dict(self.start.licences)


@step(
    reads={
        "nearest": From(RANKINGS, "nearest/{model}"),
        "pairs": From(INSTRUCTED_PAIRS, "mtp/fret/checked"),
        "passages": PASSAGES,
    },
    writes=RELABELLED,
    kind="map",
    image="gpu",
    pool="gpu",
    memory_gib=8,
)
def relabel(rows: pa.Table, params: RelabelParams, run: Run) -> pa.Table:
    """Order each query's nearest passages by how likely they make it and by how relevant they are, both ranks fused.

    The passage that the query was written for competes also where it is not among the nearest. ``likelihoods`` are
    log P(query | passage, task), ``relevances`` the expected grade under the model's probabilities of the grades. How
    many queries have another positive now is the counter ``positives_changed``; a query that is compared with its own
    passage alone is the reject ``nothing_to_compare``.

    Source: Gecko 3.2, "LLM-based Positive and Negative Mining"; grades and their expectation: Zhuang et al. 2023,
    "Beyond Yes and No". Departures: the prompts, which are not published, are ours; the seed always competes.

    Raises:
        InputError: the nearest passages are of other pairs or of other passages, or the scorer is not here.
    """
    versions = (str(run.inputs[name].manifest.ref) for name in ("pairs", "passages"))
    pairs, texts = _opened(run.store, *versions)
    asked = pairs.take(_places(rows["query_id"].combine_chunks(), pairs["query_id"], run, "pairs"))
    compared = [_compared(row, run) for row in rows.to_pylist()]
    kept = [row for row, ids in enumerate(compared) if ids]
    if not kept:
        return RELABELLED.table()
    asked, compared = asked.take(pa.array(kept)), [compared[row] for row in kept]
    places = _places(pa.array([i for ids in compared for i in ids], pa.string()), texts["passage_id"], run, "passages")
    scores = _scores(asked.to_pylist(), compared, texts["text"].take(places).to_pylist(), params, run)
    return _ordered(asked, compared, texts.take(places), scores, params, run)


class _Scores(NamedTuple):
    """Of all passages of all queries, one query after the other."""

    likelihoods: np.ndarray
    relevances: np.ndarray


@lru_cache(maxsize=1)
def _opened(store: Store, pairs: str, passages: str) -> tuple[pa.Table, pa.Table]:
    """Queries, and passages with their texts; those opened last stay in memory."""
    asked = ["query_id", "intent", "instruction", "query", "passage_id", "split"]
    of_pairs = Version.open(store, Ref.parse(pairs), INSTRUCTED_PAIRS).table(asked)
    return of_pairs, Version.open(store, Ref.parse(passages)).table(["passage_id", "text"])


@lru_cache(maxsize=1)
def _scorer(start: Start, precision: Precision, batch_size: int) -> CausalScorer:
    """The scorer; the one opened last stays loaded."""
    folder = start.folder or use.folder(start.name)
    return CausalScorer(folder, devices().split(",")[0], precision, batch_size)


def _places(ids: pa.Array, known: pa.ChunkedArray, run: Run, name: str) -> pa.Array:
    found = pc.index_in(ids, value_set=known.combine_chunks())
    if found.null_count:
        refs = run.inputs["nearest"].manifest.ref, run.inputs[name].manifest.ref
        unknown = ids.filter(pc.is_null(found))[0]
        raise InputError(f"{refs[0]} names {unknown}, which is not in {refs[1]}: give the versions that were searched")
    return found


def _compared(row: dict[str, Any], run: Run) -> list[str]:
    """The nearest passages, and the one that the query was written for."""
    ids = row["passage_ids"] if row["passage_id"] in row["passage_ids"] else [*row["passage_ids"], row["passage_id"]]
    if len(ids) > 1:
        return ids
    run.reject(row["query_id"], "nothing_to_compare", f"only {ids[0]}")
    return []


def _scores(
    asked: list[dict[str, Any]], compared: list[list[str]], texts: Sequence[str], params: RelabelParams, run: Run
) -> _Scores:
    """How likely each passage makes its query, and its expected grade."""
    scorer = _scorer(params.start, params.precision, params.batch_size)
    of = [query for query, ids in zip(asked, compared, strict=True) for _ in ids]
    shown = [" ".join(text[: params.passage_chars].split()) for text in texts]
    tasks, queries = ([" ".join((query[name] or "").split()) for query in of] for name in ("instruction", "query"))
    with run.progress(2 * len(of), "scores") as meter:
        before = list(map(prompts.before_query, shown, tasks))
        ends = [f" {query}" for query in queries]
        likelihoods = scorer.log_likelihoods(prompts.LIKELIHOOD_BEGINNING, before, ends, meter.advance)
        before = list(map(prompts.before_grade, shown, tasks, queries))
        grades = scorer.label_log_probs(prompts.RELEVANCE_BEGINNING, before, prompts.GRADES, meter.advance)
    run.count("passages_compared", len(of))
    return _Scores(likelihoods, np.exp(grades) @ np.arange(len(prompts.GRADES), dtype=np.float32))


def _ordered(
    asked: pa.Table, compared: list[list[str]], texts: pa.Table, scores: _Scores, params: RelabelParams, run: Run
) -> pa.Table:
    """The rows, each with its passages in the order of the fused ranks."""
    order, ranks, at = [], [], 0
    source_ranks = []
    for ids, source in zip(compared, asked["passage_id"].to_pylist(), strict=True):
        mine = slice(at, at + len(ids))
        best, of_both = fused_order([scores.likelihoods[mine], scores.relevances[mine]], params.k)
        order.append(at + best)
        ranks.append(of_both[:, best])
        source_ranks.append(int(np.flatnonzero(best == ids.index(source))[0]) + 1)
        at += len(ids)
    run.count("positives_changed", sum(rank > 1 for rank in source_ranks))
    ends, taken = pa.array(np.cumsum([0, *map(len, compared)]), pa.int32()), np.concatenate(order)
    both = np.concatenate(ranks, axis=1)
    of_passages = {
        "passage_ids": texts["passage_id"].take(pa.array(taken)).combine_chunks(),
        "passages": texts["text"].combine_chunks().dictionary_encode().take(pa.array(taken)),
        "likelihoods": pa.array(scores.likelihoods[taken]),
        "relevances": pa.array(scores.relevances[taken], pa.float32()),
        "likelihood_ranks": pa.array(both[0], pa.int32()),
        "relevance_ranks": pa.array(both[1], pa.int32()),
    }
    table = asked.rename_columns({"passage_id": "source_passage_id"}).append_column("source_rank", [source_ranks])
    for name, values in of_passages.items():
        table = table.append_column(name, pa.ListArray.from_arrays(ends, values))
    return table


def fused_order(scores: Sequence[np.ndarray], k: int = USUAL_K) -> tuple[np.ndarray, np.ndarray]:
    """Places of one query's passages, best first by the reciprocal ranks of all scores, and the ranks by each score.

    Of equal sums the one that came first wins, and so it is within one score: the nearest passage.

    Shapes:
        scores: each [n]; returns places [n] and ranks [scores, n], 1-based, of the passages as they came.
    """
    orders = [np.argsort(-one, kind="stable") for one in scores]
    ranks = np.empty((len(scores), len(scores[0])), np.int32)
    for number, order in enumerate(orders):
        ranks[number, order] = np.arange(1, len(order) + 1)
    best, _ = fuse([order[None, :] for order in orders], len(scores[0]), k)
    return best[0], ranks
