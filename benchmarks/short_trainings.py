"""Vectors of texts by a model, as it came or after a training of minutes; those of a training are kept in a folder."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from learning_rows import LENGTHS, Arrays, load_or_make

from pipeline_tasks.core.engines.local import end_with_parent
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import device_kind, devices
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.models.sizes import SIZES, backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.params import TrainParams

DATA = Path("../shared/data/ir")
Texts = Mapping[str, Sequence[str]]
"""Texts by use: ``queries`` and others, which are encoded as passages."""
NOTHING = Examples.of()
"""Development queries of a training whose last step's weights are wanted, whatever they score."""


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks of short trainings have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--size", choices=SIZES, default="22m")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, help="folder in which vectors stay: a run that was stopped goes on")
    parser.add_argument("--quick", action="store_true", help="few rows, one seed: does it run?")
    return parser


def all_kept(todo: Mapping[Path, Callable[[], Arrays]], at_once: int) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
    """As :func:`~learning_rows.load_or_make` for each path, so many at once in processes; each as it is done."""
    with ProcessPoolExecutor(at_once, get_context("spawn"), initializer=end_with_parent) as workers:
        futures = {workers.submit(load_or_make, path, make): path for path, make in todo.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


def placed() -> dict[str, Any]:
    """Hyperparameters of where this machine trains: on a GPU, if there is one, in the size's own pieces.

    On a processor a batch of a small model fits in memory, so nothing is encoded twice for a step.
    """
    return {} if device_kind() == "cuda" else {"graph_tokens": 32_768}


def params_of(size: str, seed: int, **given: Any) -> TrainParams:
    """Those of the size, in float32, with in-batch negatives and texts cut as by the plain script."""
    own: dict[str, Any] = {"precision": "fp32", "in_batch": True, "evals_per_epoch": 1}
    return TrainParams(size=size, seed=seed, **(placed() | own | LENGTHS | given))


def start_of(size: str) -> Path:
    """Folder of the size's backbone."""
    return folder(backbone(size).name)


def vectors(model: Path, texts: Texts) -> Arrays:
    """Vectors of length 1, by use."""
    encoder = load_encoder(model, model.parent, settings().threads, devices())
    encode = {"queries": encoder.encode_queries}
    return {use: encode.get(use, encoder.encode_passages)(list(some)) for use, some in texts.items()}


def after_training(
    rows: Examples, dev: Examples, params: TrainParams, texts: Texts, place: Path, start: Path | None = None
) -> Arrays:
    """The vectors after a training from ``start``, or from the size's backbone.

    They are kept under the hyperparameters, the name of the start and the texts of the rows; the texts to encode are
    not in the name.
    """
    named, start = [start.name] if start else [], start or start_of(params.size)

    def made() -> Arrays:
        layout = replace(layout_of(start), max_length=params.max_passage_length)
        with tempfile.TemporaryDirectory() as work:
            result = train(rows, dev, start, params, Path(work), threads=settings().threads)
            export(result.encoder, Path(work) / "out", card={"name": "trained"}, layout=layout)
            return vectors(Path(work) / "out", texts)

    learned = [block.to_pylist() for block in rows.blocks()]
    key = short_id(params.identity(), learned, settings().threads, *named)
    return load_or_make(place / f"trained-{params.seed}-{key}.npz", made)
