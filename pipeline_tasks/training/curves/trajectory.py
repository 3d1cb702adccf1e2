"""What a sampler decided: rows in a file of the model beside its training curve, which the lineage reads as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.schema import Column, RowSchema

if TYPE_CHECKING:
    from pipeline_tasks.training.sampling.sampled_schedule import Trajectory

SAMPLING_TRAJECTORY = RowSchema(
    "sampling_trajectory",
    "point_id",
    (
        Column("point_id", pa.string(), "optimiser_step, place among the points of that step, and source"),
        Column("optimiser_step", pa.int32(), "how many are done; what follows holds for the next one"),
        Column("source", pa.string(), "where training rows are from"),
        Column("probability", pa.float64(), "that the source gives the next batch"),
        Column("n_batches", pa.int64(), "of the source so far, those of decisions among them"),
        Column("influence", pa.float64(), "what learning from it was found to do, mean over targets; empty: not tried"),
        Column("influences", pa.map_(pa.string(), pa.float64()), "target -> the same; empty where it is not by target"),
        Column("gradients", pa.int64(), "of a batch that all sources took so far"),
        Column("deciding_gradients", pa.int64(), "those of them that decisions took"),
        Column("n_tokens", pa.int64(), "that all gradients and scores took so far"),
        Column("n_deciding_tokens", pa.int64(), "those of them that decisions took"),
    ),
)
FILE = f"{SAMPLING_TRAJECTORY.name}.parquet"


def trajectory(points: Trajectory) -> pa.Table:
    """A row for each source at each point."""
    rows = [row for number, point in enumerate(points) for row in _rows(number, point)]
    return pa.Table.from_pylist(rows, schema=SAMPLING_TRAJECTORY.arrow)


def save(points: Trajectory, folder: Path) -> None:
    """Write them beside the model in ``folder``, where there was a sampler."""
    if points:
        pq.write_table(trajectory(points), folder / FILE, compression="zstd")


def _rows(number: int, point: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    return [
        {
            "point_id": f"{point['step']}/{number}/{source}",
            "optimiser_step": point["step"],
            "source": source,
            "probability": point["probabilities"][i],
            "n_batches": point["drawn"][i],
            **_influence(point["influences"][i] if point["influences"] else [], point["targets"]),
            "gradients": point["gradients"],
            "deciding_gradients": point["deciding"],
            "n_tokens": point["tokens"],
            "n_deciding_tokens": point["deciding_tokens"],
        }
        for i, source in enumerate(point["sources"])
    ]


def _influence(found: Sequence[float], targets: Sequence[str]) -> dict[str, Any]:
    """The mean and each; NaN is of a source that was not tried."""
    if not found or np.isnan(found).any():
        return {"influence": None, "influences": []}
    each = list(zip(targets, found, strict=True)) if len(found) == len(targets) else []
    return {"influence": float(np.mean(found)), "influences": each}
