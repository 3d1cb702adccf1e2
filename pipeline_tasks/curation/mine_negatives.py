"""Hard negatives at difficulty alpha: a build MTT-alpha costs selection alone, the rankings do not depend on alpha."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.build_summary import summary
from pipeline_tasks.curation.id_table import strings
from pipeline_tasks.curation.negative_rules import UNRANKED, Chosen, Ranked, Rules
from pipeline_tasks.curation.passage_index import PassageIndex
from pipeline_tasks.curation.wanted import Wanted
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS, TRIPLETS
from pipeline_tasks.retrieval.judges import best_models

_RANKED = ["query_id", "passage_ids", "scores", "positive_score"]
_RANKED_BLOCK = 512
_TRIPLET_BLOCK = 32_768


class MineNegativesParams(StepParams):
    """Difficulty and number of negatives."""

    alpha: float = Field(0.75, gt=0, le=1, description="a negative's cosine is below alpha times the positive's")
    n_negatives: int = Field(9, ge=1, description="K: negatives per query; fewer stay fewer")
    models: tuple[str, ...] = Field(
        default_factory=best_models, description="models that rank; must hold each best_model (each intent's best)"
    )
    absolute_margin: float = Field(0.0, ge=0, le=2, description="a negative's cosine is this much below the positive's")
    max_score: float = Field(1.0, ge=-1, le=1, description="highest cosine of a negative; 1 for no limit")
    min_rank: int = Field(1, ge=1, description="first rank that is looked at")
    max_rank: int = Field(200, ge=1, description="last rank that is looked at (DMRetriever 3.4.3)")

    @property
    def rules(self) -> Rules:
        """These parameters as the compiled rule reads them."""
        highest = np.float32(self.max_score if self.max_score < 1 else np.inf)
        return Rules(np.float32(self.alpha), np.float32(self.absolute_margin), highest, self.min_rank, self.max_rank)


@step(
    reads={
        "labelled": LABELLED,
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=TRIPLETS,
    kind="reduce",
    dataset="mtt/{alpha}",
    version="2",
    memory_gib=4,
)
def mine_negatives(inputs: Inputs, params: MineNegativesParams, run: Run) -> Iterator[pa.Table]:
    """Give every labelled query up to K hard negatives in rank order, each with sim < alpha * sim(positive).

    Never a negative: what is known to answer the query (its positive, source passage and generated positive, and those
    of other queries of the same text), a passage with the positive's text, and any passage of another split than the
    query's, so that held-out pages never enter training. A query without any negative is the reject ``no_negative``;
    how many got fewer than K is the counter ``short_queries``. The positive's cosine is that of the best model's vote,
    or of its ranking; a query whose positive is in neither is the reject ``no_positive_score``.

    Source: DMRetriever 3.4.3, Equation 3, Algorithm 3 lines 10 to 15.

    Raises:
        InputError: a best model without rankings, a query that its ranking lacks, or an id that nobody knows.
    """
    index = PassageIndex.read(inputs["passages"], inputs["pairs"], run.scratch)
    pa.default_memory_pool().release_unused()
    wanted = Wanted.read(inputs["labelled"], inputs["pairs"], index)
    pa.default_memory_pool().release_unused()
    chosen = choose_all(wanted, index, inputs.by_last_name("rankings"), params)
    pa.default_memory_pool().release_unused()
    yield from _triplets(wanted, chosen, index, params, run)
    run.counters.update(summary(wanted, chosen, params.n_negatives))


def choose_all(
    wanted: Wanted, index: PassageIndex, rankings: dict[str, Version], params: MineNegativesParams
) -> Chosen:
    """The negatives of all queries, each from its best model's ranking.

    Raises:
        InputError: see :func:`mine_negatives`.
    """
    missing = set(wanted.models) - set(rankings)
    if missing:
        raise InputError(f"no rankings of {sorted(missing)} among {sorted(rankings)}; name each best_model in models=")
    chosen = Chosen.empty(len(wanted.query_ids), params.n_negatives, len(wanted.intents))
    for number, model in enumerate(wanted.models):
        _choose(rankings[model], wanted, wanted.model == number, index, params.rules, chosen)
    return chosen


def _choose(
    version: Version, wanted: Wanted, mine: np.ndarray, index: PassageIndex, rules: Rules, chosen: Chosen
) -> None:
    def choose_part(number: int) -> np.ndarray:
        own = chosen._replace(skipped=np.zeros_like(chosen.skipped))
        for block in version.batches(_RANKED, _RANKED_BLOCK, [number]):
            _choose_block(block, version, wanted, mine, index, rules, own)
        return own.skipped

    with ThreadPoolExecutor(settings().threads) as pool:
        chosen.skipped[:] += sum(pool.map(choose_part, range(len(version.manifest.parts))))
    lacking = np.flatnonzero(mine & (chosen.n == UNRANKED))
    if len(lacking):
        raise InputError(
            f"{version.manifest.ref} lacks query {wanted.query_ids[int(lacking[0])]} ({len(lacking)} in all): "
            "it is of other pairs; run rank_passages again"
        )


def _choose_block(
    block: pa.Table,
    version: Version,
    wanted: Wanted,
    mine: np.ndarray,
    index: PassageIndex,
    rules: Rules,
    chosen: Chosen,
) -> None:
    from pipeline_tasks.curation.negative_kernels import choose

    rows = wanted.table.numbers(block["query_id"])
    rows[(rows >= 0) & ~mine[rows]] = -1
    _fill_in(wanted, rows, block["positive_score"].to_numpy())
    unknown = choose(rows, _ranked(block, version), wanted.asked, wanted.known, index.table, rules, chosen)
    if unknown >= 0:
        name = block["passage_ids"].combine_chunks().flatten()[unknown]
        raise InputError(f"{version.manifest.ref} ranks {name}, which is no passage here; run rank_passages again")


def _fill_in(wanted: Wanted, rows: np.ndarray, scores: np.ndarray) -> None:
    """Take the cosine of a generated positive from the ranking where no vote has it; it may be outside the top."""
    scored = wanted.asked.positive_score
    needed = (rows >= 0) & wanted.own[rows] & np.isnan(scored[rows])
    scored[rows[needed]] = scores[needed]


def _ranked(block: pa.Table, version: Version) -> Ranked:
    ids, scores = (block[name].combine_chunks() for name in ("passage_ids", "scores"))
    starts, same = (np.asarray(column.offsets, np.int64) for column in (ids, scores))
    if not np.array_equal(starts - starts[0], same - same[0]):
        raise InputError(f"{version.manifest.ref}: a query has another number of passages than scores; rank again")
    return Ranked(strings(ids.flatten()), scores.flatten().to_numpy(), starts - starts[0])


def _triplets(
    wanted: Wanted, chosen: Chosen, index: PassageIndex, params: MineNegativesParams, run: Run
) -> Iterator[pa.Table]:
    for row in np.flatnonzero(chosen.n == 0):
        score = wanted.asked.positive_score[row]
        if np.isnan(score):
            detail = "its positive has no vote of its best model, and is not in that model's ranking"
            run.reject(str(wanted.query_ids[int(row)]), "no_positive_score", detail)
        else:
            detail = f"no passage below {params.alpha} * {score:.3f}"
            run.reject(str(wanted.query_ids[int(row)]), "no_negative", detail)
    kept = np.flatnonzero(chosen.n > 0)
    with run.progress(len(kept), "triplets") as meter:
        for at in range(0, len(kept), _TRIPLET_BLOCK):
            rows = kept[at : at + _TRIPLET_BLOCK]
            yield _table(rows, wanted, chosen, index)
            pa.default_memory_pool().release_unused()
            meter.advance(len(rows))


def _table(rows: np.ndarray, wanted: Wanted, chosen: Chosen, index: PassageIndex) -> pa.Table:
    n = chosen.n[rows]
    there = np.arange(chosen.codes.shape[1]) < n[:, None]
    codes = chosen.codes[rows][there]
    ends = pa.array(np.concatenate([[0], np.cumsum(n)]).astype(np.int32))
    names = wanted.rows.take(pa.array(rows))
    return pa.table(
        {
            **{name: names[name] for name in ("query_id", "intent", "query", "positive_id")},
            "positive": index.texts.take(pa.array(wanted.asked.positive[rows])).cast(pa.string()),
            "positive_score": wanted.asked.positive_score[rows],
            "negative_ids": pa.ListArray.from_arrays(ends, index.ids.take(pa.array(codes))),
            "negatives": pa.ListArray.from_arrays(ends, _texts(codes, index)),
            "negative_scores": pa.ListArray.from_arrays(ends, pa.array(chosen.scores[rows][there])),
            "split": names["split"],
            "mining_model": names["best_model"],
        }
    )


def _texts(codes: np.ndarray, index: PassageIndex) -> pa.DictionaryArray:
    """The texts, each once: neighbouring queries share many negatives."""
    distinct = np.flatnonzero(np.bincount(codes, minlength=len(index.ids)))
    place = np.empty(len(index.ids), np.int32)
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    texts = index.texts.take(pa.array(distinct)).cast(pa.string())
    index.forget_texts()
    return pa.DictionaryArray.from_arrays(pa.array(place[codes]), texts)
