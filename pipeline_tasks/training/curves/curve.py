"""How a training went, step by step: rows in a file of the model, which the lineage reads as a table.

They are part of the model's version, so they hold what every run of it repeats to the bit, interrupted or not, and no
times.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.training.params import OptimiserParams
from pipeline_tasks.training.schedule import learning_rate

if TYPE_CHECKING:
    from pipeline_tasks.training.loop import TrainResult

TRAINING_CURVE = RowSchema(
    "training_curve",
    "optimiser_step",
    (
        Column("optimiser_step", pa.int32(), "how many are done; 0: the weights as they came"),
        Column("epoch", pa.float64(), "passes over the training rows done"),
        Column("n_rows", pa.int64(), "training rows learned from so far"),
        Column("loss", pa.float64(), "mean loss of the step's rows; empty at 0"),
        Column("learning_rate", pa.float64(), "of the step; empty at 0"),
        Column("dev_score", pa.float64(), "of the weights after the step on development data; empty where not taken"),
    ),
)
FILE = f"{TRAINING_CURVE.name}.parquet"


def curve(result: TrainResult, params: OptimiserParams) -> pa.Table:
    """A row per optimiser step, and one before them for the weights as they came."""
    steps, scores = range(result.steps + 1), dict(result.scores)
    columns = {
        "optimiser_step": steps,
        "epoch": [result.epochs * step / result.steps for step in steps],
        "n_rows": np.cumsum([0, *result.rows]),
        "loss": [None, *result.losses],
        "learning_rate": [None, *(learning_rate(step, result.steps, params) for step in range(result.steps))],
        "dev_score": [scores.get(step) for step in steps],
    }
    return pa.table(columns, schema=TRAINING_CURVE.arrow)


def save(result: TrainResult, params: OptimiserParams, folder: Path) -> None:
    """Write the curve beside the model in ``folder``."""
    pq.write_table(curve(result, params), folder / FILE, compression="zstd")
