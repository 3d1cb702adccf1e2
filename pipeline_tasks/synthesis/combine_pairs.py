"""MTP: what an LLM wrote, general-domain pairs and pairs of your own, as one dataset."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, NonNegativeInt, field_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.synthesis.near_queries import near_queries

_SOURCES = ("dm", "gd", "own")


class CombinePairsParams(StepParams):
    """How much of each origin, and of each intent."""

    caps: dict[str, NonNegativeInt] = Field({}, description="origin -> pairs kept of it at most; others are kept whole")
    per_intent: int = Field(0, ge=0, description="training pairs of an LLM kept per intent at most; 0: no limit")
    balance: float = Field(
        0, ge=0, description="an intent has at most so many times the pairs of the rarest one, 1 or more; 0: any number"
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
        description="Jaccard similarity of the words of an LLM's queries that are too alike; 1: equal",
    )
    own: tuple[str, ...] = Field((), description="names of datasets mtp/own/<name> that join")


@step(
    reads={
        "dm": From(PAIRS, "mtp/dm"),
        "gd": From(PAIRS, "mtp/gd", optional=True),
        "own": From(PAIRS, "mtp/own/{item}", each="own"),
    },
    writes=PAIRS,
    kind="reduce",
    dataset="mtp/combined",
    version="4",
    keeps=_SOURCES,
)
def combine_pairs(inputs: Inputs, params: CombinePairsParams, run: Run) -> None:
    """Put all sources together; how many pairs of each origin and intent came and stayed are counters.

    Rejects: ``duplicate_query`` (words of an earlier query of its intent, unless both are of one set that answers it
    with several passages), ``near_query`` (nearly the words of an earlier one that an LLM wrote), ``over_cap`` (not in
    its origin's sample), ``over_intent`` (not in its intent's). Limits by intent are for what an LLM wrote and trains
    on, once all else is refused.

    Source: DMRetriever, Algorithm 2 line 14; Table 10 for the caps.
    """
    import duckdb

    columns = ["query_id", "query", "intent", "origin", "split", "passage_id"]
    pairs = pa.concat_tables([version.table(columns) for name in _SOURCES for version in inputs.each(name)])
    _refuse_repeated(pairs)
    pairs = pairs.append_column("place", pa.array(np.arange(pairs.num_rows)))
    caps = pa.table({"origin": pa.array(params.caps, pa.string()), "most": pa.array(params.caps.values(), pa.int64())})
    written = pc.and_(pc.equal(pairs["origin"], "dm"), pc.equal(pc.fill_null(pairs["split"], "train"), "train"))
    near = near_queries(pairs.filter(written), params.near)
    limits = pa.table(
        {
            "most": pa.array([params.per_intent or None], pa.int64()),
            "times": pa.array([params.balance or None], pa.float64()),
        }
    )
    with duckdb.connect() as connection:
        connection.register("near_queries", near)
        connection.register("intent_limits", limits)
        connection.register("pairs", pairs)
        connection.register("caps", caps)
        refused = connection.sql(script("combine_pairs.sql")).to_arrow_table()
    for reason in pc.unique(refused["reason"]).to_pylist():
        rows = refused.filter(pc.equal(refused["reason"], reason))
        run.reject_all(rows["query_id"].combine_chunks(), reason, rows["detail"].combine_chunks())
    stayed = pc.invert(pc.is_in(pairs["query_id"], refused["query_id"].combine_chunks()))
    for name, rows in (("pairs_read", pairs), ("pairs_kept", pairs.filter(stayed))):
        for group in rows.group_by(["origin", "intent"]).aggregate([([], "count_all")]).to_pylist():
            run.count(f"{name}/{group['origin']}/{group['intent']}", group["count_all"])


def _refuse_repeated(pairs: pa.Table) -> None:
    """A pair is refused by its id, so one that is in two datasets would be lost from both."""
    times = pairs.group_by("query_id").aggregate([([], "count_all")])
    twice = times.filter(pc.greater(times["count_all"], 1))
    if twice.num_rows:
        raise InputError(
            f"{twice.num_rows:,} pairs are in two of the datasets that are to be combined, {twice['query_id'][0]} for "
            "one: give each dataset once, and none that others were combined into"
        )
