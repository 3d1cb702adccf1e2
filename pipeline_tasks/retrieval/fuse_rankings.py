"""Fused rankings: one more ranker made of several, used wherever a model's rankings are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import list_array, lists_at, places_in
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, RANKINGS
from pipeline_tasks.retrieval.fusion import BM25, USUAL_K, fuse, fused_score, sharing_words
from pipeline_tasks.retrieval.reference_models import default_models

_BLOCK = 2048
_PART = 16 * _BLOCK


class FuseRankingsParams(StepParams):
    """What is fused, and how."""

    models: tuple[str, ...] = Field(
        default_factory=lambda: (*default_models(), BM25), min_length=1, description="rankers to fuse"
    )
    k: int = Field(USUAL_K, ge=0, description="RRF constant k: a passage at rank r counts 1 / (k + r)")
    depth: int = Field(200, ge=1, description="passages kept per query")


@step(
    reads={"pairs": From(PAIRS, "mtp"), "rankings": From(RANKINGS, "rankings/{item}", each="models")},
    writes=RANKINGS,
    kind="reduce",
    dataset="rankings/rrf",
    version="3",
    memory_gib=4,
)
def fuse_rankings(inputs: Inputs, params: FuseRankingsParams, run: Run) -> Iterator[pa.Table]:
    """Rank by the sum of 1 / (k + rank) over several rankings of the same pairs; ties by passage id.

    The scores are these sums, not cosines; the score of a pair's own positive counts the ranks that it has. BM25's
    ranking ends where no word is shared: what is behind that is in the order of ids.

    Raises:
        InputError: a ranking is missing, or is of other pairs.
    """
    rankings = inputs.by_last_name("rankings")
    missing = [model for model in params.models if model not in rankings]
    if missing:
        raise InputError(f"no rankings of {missing} among {sorted(rankings)}; give rankings/{missing[0]} as well")
    pairs = _blocks(inputs["pairs"], ["query_id", "passage_id", "doc_id", "intent", "positive_id"])
    columns = [_blocks(rankings[model], ["query_id", "passage_ids", "scores"]) for model in params.models]
    fused: list[pa.Table] = []
    with run.progress(inputs["pairs"].manifest.rows, "queries") as meter:
        for block in pairs:
            ranked = []
            for model, column in zip(params.models, columns, strict=True):
                found = next(column, None)
                if found is None or found["query_id"] != block["query_id"]:
                    ref = rankings[model].manifest.ref
                    raise InputError(
                        f"{ref} is not of {inputs['pairs'].manifest.ref}, row by row; rank these pairs, of all intents"
                    )
                ids, scores = (found[name].combine_chunks() for name in ("passage_ids", "scores"))
                ranked.append(sharing_words(ids, scores)[0] if model == BM25 else ids)
            fused.append(_fused(block, ranked, params))
            meter.advance(block.num_rows)
            if sum(table.num_rows for table in fused) >= _PART:
                yield pa.concat_tables(fused)
                fused = []
    if fused:
        yield pa.concat_tables(fused)


def _blocks(version: Version, columns: list[str]) -> Iterator[pa.Table]:
    """Rows in blocks of equal size, however they lie in parts."""
    held: list[pa.Table] = []
    for batch in version.batches(columns, _BLOCK):
        held.append(batch)
        while sum(table.num_rows for table in held) >= _BLOCK:
            rows = pa.concat_tables(held)
            yield rows.slice(0, _BLOCK)
            held = [rows.slice(_BLOCK)]
    rest = pa.concat_tables(held) if held else None
    if rest is not None and rest.num_rows:
        yield rest


def _fused(block: pa.Table, lists: Iterable[pa.ListArray], params: FuseRankingsParams) -> pa.Table:
    lists = list(lists)
    ids = pc.unique(pa.concat_arrays([column.flatten() for column in lists]))
    ids = ids.take(pc.sort_indices(ids))
    numbers = [places_in(column, ids) for column in lists]
    own = pc.index_in(block["positive_id"], value_set=ids).fill_null(-1).to_numpy()
    found, scores = fuse(numbers, params.depth, params.k)
    there = found >= 0
    return (
        block.drop_columns(["positive_id"])
        .append_column("passage_ids", lists_at(found, ids))
        .append_column("scores", list_array(there.sum(axis=1), pa.array(scores[there])))
        .append_column("positive_score", pa.array(fused_score(numbers, own, params.k)))
    )
