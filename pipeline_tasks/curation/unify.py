"""One training set in one form: a task, a query, its positive and its negatives, wherever rows are from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, RELABELLED


class UnifyParams(StepParams):
    """What is taken of each source."""

    negatives: Literal["last", "sampled"] = Field(
        "last", description="of a relabelled query: its lowest passages, or any below the first, drawn by its id"
    )
    n_negatives: int = Field(1, ge=1, description="negatives of a relabelled query")
    builds: tuple[str, ...] = Field((), description="triplet builds that take part as well, such as mtt/0.65")
    per_source: int | None = Field(
        None, ge=1, description="training queries of each source at most, drawn by their ids; empty: all"
    )


@step(
    reads={"relabelled": RELABELLED, "builds": From(INSTRUCTED_TRIPLETS, "{item}", each="builds")},
    writes=INSTRUCTED_TRIPLETS,
    kind="reduce",
    dataset="mtt/fret",
)
def unify(inputs: Inputs, params: UnifyParams, run: Run) -> Iterator[pa.Table]:
    """Triplets of relabelled queries and of other builds, in one set that fine-tuning reads.

    A relabelled query has its first passage as the positive, and its last one as the negative. A query of a build keeps
    its negatives, and is asked as its intent is where it has no task. ``per_source`` lets every source give as many
    queries (Gecko 3.3); those that are not drawn are counted as ``not_sampled``. A query that an earlier source has is
    the reject ``duplicate_id``. ``distinct_tasks`` counts those of relabelled queries.

    Source: Gecko 3.2 and 3.3.
    """
    relabelled, seen = inputs["relabelled"], set[str]()
    tasks = relabelled.table(["instruction"])["instruction"]
    run.count("distinct_tasks", len(pc.unique(tasks)))
    for part in _taken(relabelled, params, seen, run):
        yield _triplets(part, relabelled, params)
    for build in inputs.each("builds"):
        yield from _taken(build, params, seen, run)


def _taken(version: Version, params: UnifyParams, seen: set[str], run: Run) -> Iterator[pa.Table]:
    """The rows of a source that take part, part by part; their queries are ``seen`` then."""
    drawn = _drawn(version, params.per_source)
    for part in version.parts():
        ids = part["query_id"].to_pylist()
        taking = [name in drawn and name not in seen for name in ids]
        for name in (name for name in ids if name in drawn and name in seen):
            run.reject(name, "duplicate_id", str(version.manifest.ref))
        run.count("not_sampled", sum(name not in drawn for name in ids))
        seen.update(ids)
        yield part.filter(pa.array(taking, pa.bool_()))


def _drawn(version: Version, most: int | None) -> set[str]:
    """Queries of a source that take part: of training those that their ids draw, of other splits all."""
    rows = version.table(["query_id", "split"])
    trains = pc.equal(rows["split"], "train")
    trained = sorted(rows["query_id"].filter(trains).to_pylist(), key=lambda name: unit_hash("unify", name))
    return {*rows["query_id"].filter(pc.invert(trains)).to_pylist(), *trained[:most]}


def _triplets(rows: pa.Table, relabelled: Version, params: UnifyParams) -> pa.Table:
    """The first passage of each query against its last ones, or against some of the rest."""
    passages, ids = rows["passages"].combine_chunks(), rows["passage_ids"].combine_chunks()
    lengths = pc.list_value_length(ids).to_numpy().astype(np.int64)
    first = np.cumsum(lengths) - lengths
    below = [
        start + negative_places(name, int(length), params)
        for name, start, length in zip(rows["query_id"].to_pylist(), first, lengths, strict=True)
    ]
    ends = pa.array(np.cumsum([0, *map(len, below)]), pa.int32())
    taken = pa.array(np.concatenate([np.empty(0, np.int64), *below]))
    unscored = pa.nulls(len(taken), pa.float32())
    columns = {name: rows[name] for name in ("query_id", "intent", "query", "instruction", "split")} | {
        "positive_id": ids.flatten().take(pa.array(first)),
        "positive": passages.flatten().take(pa.array(first)).cast(pa.string()),
        "positive_score": pa.nulls(rows.num_rows, pa.float32()),
        "negative_ids": pa.ListArray.from_arrays(ends, ids.flatten().take(taken)),
        "negatives": pa.ListArray.from_arrays(ends, passages.flatten().take(taken)),
        "negative_scores": pa.ListArray.from_arrays(ends, unscored),
        "mining_model": pa.repeat(pa.scalar(relabelled.manifest.params.get("model", "")), rows.num_rows),
    }
    return pa.table(columns)


def negative_places(query_id: str, n_passages: int, params: UnifyParams) -> np.ndarray:
    """Places of a query's negatives among its passages, best first, of which the first is the positive."""
    below = np.arange(1, n_passages)
    if params.negatives == "last":
        return below[-params.n_negatives :]
    return np.array(sorted(sorted(below, key=lambda place: unit_hash(query_id, int(place)))[: params.n_negatives]))
