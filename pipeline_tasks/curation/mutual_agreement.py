"""Which queries survive, and with which positive: those whose reference models agree.

The paper says it twice, differently: section 3.4.2 keeps a query where all three models return the *same* top N,
Algorithm 3 where the *intersection* of their top N is not empty. The algorithm is the default (``mutual``), the
sentence is ``identical``. Algorithm 3 filters the pairs of the domain alone: general-domain pairs keep the positive
that they came with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field, NonNegativeInt, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, StepParams, added, step, tuning
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.curation.agreement import Strategy
from pipeline_tasks.curation.block_votes import hear, vote
from pipeline_tasks.curation.blocks import blocks_of, ranked_rows
from pipeline_tasks.curation.capped_labels import cap, find_caps, write_labels
from pipeline_tasks.curation.passage_facts import facts_of
from pipeline_tasks.curation.text_parts import ChosenRows, text_partitions
from pipeline_tasks.datasets import LABELLED, PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.retrieval.reference_models import complete_panels, default_models, default_panels, models_of

_LABEL_BLOCK = 32_768


class MutualAgreementParams(StepParams):
    """How much agreement is asked for, and of whom."""

    strategy: Strategy = Field(
        "none",
        description="none: no filter; consistency: the best model has the pair's own positive in its top N; "
        "mutual: the models' top N share a passage; identical: all have the same top N",
    )
    top_n: int = Field(2, ge=1, description="N: best passages of each model that are compared")
    judges: dict[str, tuple[str, ...]] = Field(
        default_factory=default_panels,
        min_length=1,
        description="intent, or any -> reference models that vote on its queries, best first",
    )
    models: tuple[str, ...] = Field(
        default_factory=default_models,
        min_length=1,
        description="reference models whose rankings are read; without judges= all vote on every query, best first",
    )
    filtered: tuple[str, ...] = Field(("dm",), description="origins that are filtered; others keep their positive")
    most_general: int = Field(200_000, ge=0, description="pairs kept of one origin but dm at most, after the filter")
    caps: dict[str, NonNegativeInt] = added(
        {}, description="origin -> pairs kept of it at most in place of most_general, of dm too; 0: none of it"
    )

    shard_passages: int = tuning(100_000, ge=1, description="passages whose ids a process holds at a time")
    block_queries: int = tuning(16_384, ge=1, description="queries that a process decides on at a time")

    @model_validator(mode="before")
    @classmethod
    def _one_tells_the_other(cls, given: dict[str, Any]) -> dict[str, Any]:
        return complete_panels(given)

    def identity(self) -> dict[str, Any]:
        """And which rule ``identical`` is, since a release of it let one model have passages that the best had not."""
        return super().identity() | ({"same": 2} if self.strategy == "identical" else {})

    @model_validator(mode="after")
    def _each_once(self) -> MutualAgreementParams:
        for intent, panel in self.judges.items():
            if twice := [model for place, model in enumerate(panel) if model in panel[:place]]:
                raise ValueError(f"{twice[0]} judges {intent} twice; name each model once")
        return self


@step(
    reads={
        "pairs": From(PAIRS, "mtp"),
        "passages": PASSAGES,
        "rankings": From(RANKINGS, "rankings/{item}", each="models"),
    },
    writes=LABELLED,
    kind="partitioned",
    version="5",
    memory_gib=2,
)
def mutual_agreement(inputs: Inputs, params: MutualAgreementParams, run: PartitionedRun) -> Iterator[Part | pa.Table]:
    """Label each query with its own positive, or only where reference models find that or agree on another one.

    Rejects: ``held_out`` (queries of test documents: they are for evaluation), ``other_side`` (the passage that the
    query was written for is in another split today), ``no_agreement`` (mutual, identical), ``not_retrieved``
    (consistency), ``positive_held_out`` (the positive is of a document in another split than the query's),
    ``over_cap``.

    Source: DMRetriever 3.4.2, Algorithm 3 lines 2 to 9, appendix J. Departures: no filter is the default,
    since what was measured is that filters cost right pairs more than they gave (docs/benchmarks/learning.md). Every
    general-domain set is kept, up to ``most_general``; the paper's MTT has seven of its 15, of sizes that Table 11
    gives and ``caps`` takes. All judges rank general-domain queries, whose votes are kept with them; Algorithm 3 asks
    the best one alone.

    Raises:
        InputError: no pairs, rankings that lack a model or a query or have an unknown passage, nobody judges an
            intent, or ``caps`` names an origin that no pair has.
    """
    chosen = _chosen(inputs, params, run)
    done = run.spread(write_labels, text_partitions(inputs, chosen, _LABEL_BLOCK), final=True)
    for parts in done:
        yield from parts
    if not done:
        yield LABELLED.table()


def _chosen(inputs: Inputs, params: MutualAgreementParams, run: PartitionedRun) -> list[ChosenRows]:
    """The labels of all queries, block by block, without their texts; counted on the way."""
    blocks = blocks_of(inputs["pairs"], params.block_queries)
    rankings = _rankings(inputs.by_last_name("rankings"), params)
    facts = facts_of(inputs, params.shard_passages, run)
    ranked = ranked_rows(blocks, rankings, params.block_queries, run)
    asked = [{"queries": block.rows, **rows} for block, rows in zip(blocks, ranked, strict=True)]
    common = {"judges": params.judges, "filtered": [*params.filtered, ""], "top_n": params.top_n}
    own_wanted = {"own_wanted": params.strategy in ("consistency", "none")}
    heard = run.spread(
        hear,
        [Partition(rows, {}, block.values | common | own_wanted) for block, rows in zip(blocks, asked, strict=True)],
    )
    voted = run.spread(vote, [
        Partition(rows, {"heard": said, "facts": facts}, block.values | common | {"strategy": params.strategy})
        for block, rows, said in zip(blocks, asked, heard, strict=True)
    ], lasting=False)  # fmt: skip
    most = {"most": params.most_general, "caps": params.caps}
    (caps,) = run.spread(find_caps, [Partition({}, {"asked": [told for _, told in voted]}, most)])
    capped = run.spread(cap, [
        Partition({"queries": block.rows}, {"votes": [votes], "asked": [told], "caps": caps}, block.values | most)
        for block, (votes, told) in zip(blocks, voted, strict=True)
    ], lasting=False)  # fmt: skip
    chosen = []
    for block, (votes, _), (rows, parts, counts) in zip(blocks, voted, capped, strict=True):
        for row in read_part(run.store, counts).to_pylist():
            run.count(row["counter"], row["n"])
        held_by = set(read_part(run.store, parts)["part"].to_pylist())
        chosen.append(ChosenRows(block, {"votes": votes, "rows": rows}, rows.rows, held_by))
    return chosen


def _rankings(given: dict[str, Version], params: MutualAgreementParams) -> dict[str, Version]:
    """Those of the models that judge."""
    models = models_of(params.judges)
    missing = sorted(set(models) - set(given))
    if missing:
        raise InputError(f"no rankings of {missing} among {sorted(given)}; give rankings/{missing[0]} as well")
    return {model: given[model] for model in models}
