"""MTP: what an LLM wrote, general-domain pairs and pairs of your own, as one dataset."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import PAIRS

_SOURCES = ("dm", "gd", "own")


class CombinePairsParams(StepParams):
    """How much of each origin."""

    caps: dict[str, int] = Field({}, description="origin -> pairs kept of it at most; others are kept whole")
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
    version="2",
    keeps=_SOURCES,
)
def combine_pairs(inputs: Inputs, params: CombinePairsParams, run: Run) -> None:
    """Put all sources together; how many pairs of each origin and intent came and stayed are counters.

    Rejects: ``duplicate_query`` (words of an earlier query of its intent), ``over_cap`` (not in its origin's sample).

    Source: DMRetriever, Algorithm 2 line 14; Table 10 for the caps.
    """
    import duckdb

    columns = ["query_id", "query", "intent", "origin"]
    pairs = pa.concat_tables([version.table(columns) for name in _SOURCES for version in inputs.each(name)])
    pairs = pairs.append_column("place", pa.array(np.arange(pairs.num_rows)))
    caps = pa.table({"origin": pa.array(params.caps, pa.string()), "most": pa.array(params.caps.values(), pa.int64())})
    with duckdb.connect() as connection:
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
