"""MTP: domain pairs and, where there are any, general-domain pairs, as one dataset."""

from __future__ import annotations

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, NoParams, step
from pipeline_tasks.datasets import PAIRS


@step(
    reads={"dm": From(PAIRS, "mtp/dm"), "gd": From(PAIRS, "mtp/gd", optional=True)},
    writes=PAIRS,
    kind="reduce",
    dataset="mtp",
    keeps=("dm", "gd"),
)
def combine_pairs(inputs: Inputs, params: NoParams, run: Run) -> None:
    """Put both sources together; a second row with the same query text is a reject ``duplicate_query``.

    Source: DMRetriever, Algorithm 2 line 14.
    """
    seen: dict[str, str] = {}
    for name in ("dm", "gd"):
        for version in inputs.each(name):
            for row in version.table(["query_id", "query", "intent"]).to_pylist():
                key = f"{row['intent']} {' '.join(row['query'].lower().split())}"
                first = seen.setdefault(key, row["query_id"])
                if first != row["query_id"]:
                    run.reject(row["query_id"], "duplicate_query", f"of {first}: {row['query']}")
