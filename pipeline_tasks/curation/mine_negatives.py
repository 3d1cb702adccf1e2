"""Hard negatives at difficulty alpha: a build MTT-alpha costs selection alone, the rankings do not depend on alpha."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.curation.blocks import Block, blocks_of, ranked_rows
from pipeline_tasks.curation.build_summary import summary
from pipeline_tasks.curation.candidates_below_bound import find_low
from pipeline_tasks.curation.chosen_negatives import choose_low, write_triplets
from pipeline_tasks.curation.negative_rules import Rules
from pipeline_tasks.curation.passage_facts import facts_of
from pipeline_tasks.curation.rankings_of_labels import check_rankings_of_labels
from pipeline_tasks.curation.same_texts import known_answers
from pipeline_tasks.curation.text_parts import ChosenRows, text_partitions
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS, TRIPLETS
from pipeline_tasks.retrieval.reference_models import default_best_models

_TRIPLET_BLOCK = 32_768


class MineNegativesParams(StepParams):
    """Difficulty and number of negatives."""

    alpha: float = Field(0.75, gt=0, le=1, description="a negative's cosine is below alpha times the positive's")
    n_negatives: int = Field(9, ge=1, description="K: hard negatives per query, at most")
    models: tuple[str, ...] = Field(
        default_factory=default_best_models,
        description="reference models whose rankings are mined; must include each best_model (each intent's best)",
    )
    absolute_margin: float = Field(
        0.0, ge=0, le=2, description="absolute margin: a negative's cosine is at least this much below the positive's"
    )
    max_score: float = Field(1.0, ge=-1, le=1, description="highest cosine of a negative; 1: no limit")
    min_rank: int = Field(1, ge=1, description="first rank that is mined")
    max_rank: int = Field(200, ge=1, description="last rank that is mined (DMRetriever 3.4.3)")

    shard_passages: int = tuning(100_000, ge=1, description="passages whose ids a process holds at a time")
    block_queries: int = tuning(16_384, ge=1, description="queries that a process mines for at a time")

    @model_validator(mode="after")
    def _check_ranks(self) -> MineNegativesParams:
        if self.min_rank > self.max_rank:
            raise ValueError(f"min_rank={self.min_rank} is above max_rank={self.max_rank}: no rank would be looked at")
        return self

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse rankings whose scores do not compare with those of the labels."""
        if "labelled" in inputs:
            check_rankings_of_labels(inputs["labelled"], inputs.by_last_name("rankings"))

    @property
    def values(self) -> dict[str, Any]:
        """What a partition is told of them."""
        return self.model_dump(include={*Rules._fields, "n_negatives"})


@step(
    reads={
        "labelled": LABELLED,
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=TRIPLETS,
    kind="partitioned",
    dataset="mtt/{alpha}",
    version="5",
    memory_gib=2,
)
def mine_negatives(inputs: Inputs, params: MineNegativesParams, run: PartitionedRun) -> Iterator[Part | pa.Table]:
    """Give every labelled query up to K hard negatives in rank order, each with sim < alpha * sim(positive).

    Never a negative: what is known to answer the query (its positive, source passage and generated positive, and those
    of other queries of the same words, refused ones as well), a passage with the text of one of these, and any passage
    of another split than the query's, so that held-out pages never enter training. A query without any negative is the
    reject ``no_negative``; how many got fewer than K is the counter ``short_queries``. The positive's cosine is that of
    the best model's vote, or of its ranking; a query whose positive is in neither is the reject ``no_positive_score``.

    Source: DMRetriever 3.4.3, Equation 3, Algorithm 3 lines 10 to 15. Departure: of a positive whose cosine s is not
    above 0 the bound is (2 - alpha) * s, as alpha * s would admit what is more similar than it.

    Raises:
        InputError: labels without parts, a best model without rankings, rankings that end before ``min_rank``, a query
            that its ranking lacks, an id that nobody knows, or labels by rankings of other parameters.
    """
    mined = mine(inputs, params, run)
    chosen = [ChosenRows(one.block, {"chosen": one.chosen}, one.chosen.rows, one.held_by) for one in mined]
    done = run.spread(write_triplets, text_partitions(inputs, chosen, _TRIPLET_BLOCK), final=True)
    for parts in done:
        yield from parts
    if not done:
        yield TRIPLETS.table()
    run.counters.update(summary(read_part(run.store, part) for block in mined for part in block.told))


@dataclass(frozen=True)
class Mined:
    """What was chosen for a block of queries.

    Attributes:
        block: the queries.
        chosen: those of them with negatives: ids, cosines, and where the texts lie.
        held_by: numbers of the parts that hold these texts.
        told: tables of the summary.
    """

    block: Block
    chosen: Part
    held_by: set[int]
    told: Sequence[Part]


def mine(inputs: Inputs, params: MineNegativesParams, run: PartitionedRun) -> list[Mined]:
    """The negatives of all queries, block by block, without their texts.

    Raises:
        InputError: see :func:`mine_negatives`.
    """
    rankings = inputs.by_last_name("rankings")
    for version in rankings.values():
        depth = version.manifest.params.get("depth", params.min_rank)
        if depth < params.min_rank:
            ref = version.manifest.ref
            raise InputError(f"min_rank={params.min_rank} of {ref}, which has {depth} ranks: lower it, or rank deeper")
    blocks = blocks_of(inputs["labelled"], params.block_queries)
    facts = facts_of(inputs, params.shard_passages, run)
    known = known_answers(blocks, inputs["pairs"], params.block_queries, run)
    ranked = ranked_rows(blocks, rankings, params.block_queries, run)
    mined: dict[int, Mined] = {}
    # A few more than K: some are of another split or known to answer. Where that is not enough, all are looked at.
    for most in (2 * params.n_negatives + 8, None):
        todo = [at for at in range(len(blocks)) if at not in mined]
        low = run.spread(find_low, [
            Partition({"queries": blocks[at].rows, **ranked[at]}, {"known": known[at]},
                      blocks[at].values | params.values | {"most": most})
            for at in todo
        ])  # fmt: skip
        chosen = run.spread(choose_low, [
            Partition({"queries": blocks[at].rows, **ranked[at]},
                      {"low": [candidates], "known": known[at], "facts": facts}, blocks[at].values | params.values)
            for at, (candidates, _) in zip(todo, low, strict=True)
        ], lasting=False)  # fmt: skip
        for at, (_, skipped), (found, parts, told, again) in zip(todo, low, chosen, strict=True):
            if not again.rows:
                numbers = set(read_part(run.store, parts)["part"].to_pylist())
                mined[at] = Mined(blocks[at], found, numbers, [skipped, told])
    return [mined[at] for at in range(len(blocks))]
