"""Passages without those that `cluster_passages` found to repeat an earlier one."""

from __future__ import annotations

import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, NoParams, step
from pipeline_tasks.datasets import PASSAGE_DUPLICATES, PASSAGES


@step(
    reads={"chunks": From(PASSAGES, "chunks"), "duplicates": From(PASSAGE_DUPLICATES, "duplicates/passages")},
    writes=PASSAGES,
    kind="reduce",
    version="2",
    keeps=("chunks",),
)
def near_duplicate_passages(inputs: Inputs, params: NoParams, run: Run) -> None:
    """Remove every passage that is nearly an earlier one; rejects ``near_duplicate_passage`` name it and the cosine.

    Source: DMRetriever, appendix A (5).

    Raises:
        InputError: the duplicates were found among other passages.
    """
    passages = inputs["chunks"].table(["passage_id"])["passage_id"]
    found = inputs["duplicates"].table()
    if not found["passage_id"].equals(passages):
        raise InputError(
            "the duplicates are not of these passages; run embed_passages --input passages=chunks, then "
            "cluster_passages with what that prints: --input embeddings=…@VERSION"
        )
    for row in found.filter(pc.not_equal(found["passage_id"], found["representative_id"])).to_pylist():
        detail = f"of {row['representative_id']}, cosine {row['cosine']:.3f}"
        run.reject(row["passage_id"], "near_duplicate_passage", detail)
