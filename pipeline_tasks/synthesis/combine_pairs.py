"""MTP: what an LLM wrote, general-domain pairs and pairs of your own, as one dataset."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pydantic import Field, NonNegativeInt, field_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.partitions import Partition, PartitionedRun, Rows, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.synthesis.moved_pairs import refuse_moved
from pipeline_tasks.synthesis.near_queries import deal_near_queries, key_queries
from pipeline_tasks.synthesis.query_samples import find_limits, refuse_alike, refuse_beyond
from pipeline_tasks.synthesis.query_words import deal_queries, find_repeated, find_twice
from pipeline_tasks.texts.near_groups import Shards, power_of_two

_SOURCES = ("dm", "gd", "own")


class CombinePairsParams(StepParams):
    """How much of each origin, and of each intent."""

    caps: dict[str, NonNegativeInt] = Field({}, description="origin -> its pairs at most; other origins are kept whole")
    per_intent: int = Field(0, ge=0, description="synthetic training pairs per intent, at most; 0: no limit")
    balance: float = Field(
        0, ge=0, description="largest ratio of an intent's pairs to those of the rarest intent, 1 or more; 0: no limit"
    )

    @field_validator("balance")
    @classmethod
    def _not_below_one(cls, times: float) -> float:
        if 0 < times < 1:
            raise ValueError(f"balance={times:g} would leave fewer than the rarest intent has: 1 or more, or 0")
        return times

    near: float = Field(
        0.9,
        ge=0.5,
        le=1,
        description="word Jaccard from which synthetic queries are near-duplicates; 1: equal ones alone",
    )
    own: tuple[str, ...] = Field((), description="datasets mtp/own/<name> to add, by name")
    block_pairs: int = tuning(262_144, ge=1, description="pairs that a process holds at a time")


@step(
    reads={
        "dm": From(PAIRS, "mtp/dm", optional=True),
        "gd": From(PAIRS, "mtp/gd", optional=True),
        "own": From(PAIRS, "mtp/own/{item}", each="own"),
        "passages": From(PASSAGES, read_by="own", optional=True),
    },
    writes=PAIRS,
    kind="partitioned",
    dataset="mtp/combined",
    version="7",
    keeps=_SOURCES,
)
def combine_pairs(inputs: Inputs, params: CombinePairsParams, run: PartitionedRun) -> None:
    """Put all sources together; how many pairs of each origin and intent came and stayed are counters.

    Rejects: ``duplicate_query`` (words of an earlier query of its intent, unless both are of one set that answers it
    with several passages), ``near_query`` (nearly the words of an earlier one that an LLM wrote), ``over_cap`` (not in
    its origin's sample), ``over_intent`` (not in its intent's); of pairs of your own ``other_side`` (the passage is in
    another split than when it was read) and ``unknown_passage`` (it is not there any more): none of these is anybody's
    first. Limits by intent are for
    what an LLM wrote and trains on, once all else is refused. One process holds ``block_pairs`` at a time.

    Raises:
        InputError: no dataset of pairs is there, two pairs have one id, or ``caps`` names an origin that no pair has.

    Source: DMRetriever, Algorithm 2 line 14; Table 10 for the caps.
    """
    if not any(inputs.each(name) for name in _SOURCES):
        raise InputError("there are no pairs: run write_pairs, read_general_pairs, or read_pairs and name them in own")
    shards = _shards(inputs, params)
    moved = _moved(shards, inputs, run)
    turns, repeated = _repeated(shards, moved, run)
    near = shards.repeats(key_queries, deal_near_queries, run, left_out=moved)
    distinct = run.spread(refuse_alike, [
        Partition(rows, {"turns": [of_ids], "moved": moved, "repeated": of_words, "near": of_sketches},
                  {"first": first})
        for rows, of_ids, of_words, of_sketches, first in zip(
            shards.rows, turns, repeated, near, shards.places, strict=False
        )
    ], lasting=False)  # fmt: skip
    bounds = {"caps": params.caps, "per_intent": params.per_intent, "balance": params.balance}
    everyone = Partition(parts={"distinct": [table for (table,) in distinct]}, values=bounds)
    ((limits,),) = run.spread(find_limits, [everyone], lasting=False)
    counted = run.spread(refuse_beyond, [
        Partition(rows, {"distinct": of_shard, "limits": [limits]})
        for rows, of_shard in zip(shards.rows, distinct, strict=True)
    ], lasting=False)  # fmt: skip
    rows = [row for (table,) in counted for row in read_part(run.store, table).to_pylist()]
    _check_caps(params, {row["origin"] for row in rows}, has_general="gd" in inputs)
    for row in rows:
        for name in ("read", "kept"):
            if row[name]:
                run.count(f"pairs_{name}/{row['origin']}/{row['intent']}", row[name])


def _check_caps(params: CombinePairsParams, origins: set[str], *, has_general: bool) -> None:
    """Refuse a cap of an origin that no pair has; general-domain pairs may be missing altogether."""
    for name in sorted(params.caps.keys() - origins - {"dm"}):
        if origins and (has_general or not name.startswith("gd/")):
            raise InputError(
                f"caps has {name!r}, and no pair is of that origin; there are {', '.join(sorted(origins))}: "
                "correct it, or leave it out"
            )


def _shards(inputs: Inputs, params: CombinePairsParams) -> Shards:
    versions = {f"{name}/{n}": version for name in _SOURCES for n, version in enumerate(inputs.each(name))}
    n = sum(version.manifest.rows for version in versions.values())
    return Shards(pieces(versions, params.block_pairs), power_of_two(n / params.block_pairs), params.near)


def _moved(shards: Shards, inputs: Inputs, run: PartitionedRun) -> list[Part]:
    """Tables of :func:`refuse_moved`, of the shards whose passages are known."""
    known = {version.manifest.dataset: Rows(version) for version in inputs.each("passages")}
    partitions = []
    for rows, first in zip(shards.rows, shards.places, strict=False):
        own = (some.version.manifest.inputs for name, some in rows.items() if name.startswith("own/") and len(some))
        datasets = [Ref.parse(text).dataset for read in own for text in read.get("passages", ())]
        for passages in (known[dataset] for dataset in datasets if dataset in known):
            partitions.append(Partition(rows | {"passages": passages}, values={"first": first}))
    return [table for (table,) in run.spread(refuse_moved, partitions, lasting=False)]


def _repeated(shards: Shards, moved: list[Part], run: PartitionedRun) -> tuple[Sequence[Part], list[tuple[Part, ...]]]:
    """Of each shard the hashes of its ids, and the tables of :func:`find_repeated`.

    Raises:
        InputError: two pairs have one id, by which both would be refused.
    """
    dealt = run.spread(deal_queries, [Partition(rows, values={"groups": shards.groups}) for rows in shards.rows])
    turns, *ranges = zip(*dealt, strict=True)
    ids = [Partition(parts={"ids": tables}) for tables in ranges[shards.groups :]]
    found = [read_part(run.store, part) for (part,) in run.spread(find_twice, ids, lasting=False)]
    if n := sum(map(len, found)):
        one = min(pa.concat_tables(found)["query_id"].to_pylist())
        raise InputError(
            f"{n:,} pairs are in two of the datasets that are to be combined, {one} for one: give each dataset once, "
            "and none that others were combined into"
        )
    places = {"places": list(shards.places)}
    words = [Partition(parts={"words": tables, "moved": moved}, values=places) for tables in ranges[: shards.groups]]
    return turns, list(zip(*run.spread(find_repeated, words, lasting=False), strict=True))
