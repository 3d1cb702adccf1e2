"""What fine-tuning and distillation share: rows of a triplet build, asked with the instruction of their intent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.training.common import asked, train_and_export
from pipeline_tasks.training.examples import DevSet, TrainingSet
from pipeline_tasks.training.params import TrainParams

SEPARATOR = ": "


class TripletParams(TrainParams):
    """Hyperparameters of a training on queries with negatives of their own."""

    n_negatives: int | None = Field(
        None, ge=1, description="of each query's negatives the first so many; empty: all that were mined"
    )
    in_batch: bool = Field(False, description="the batch's other passages are negatives as well; Equation 4 has none")
    instruct: bool = Field(True, description="queries carry the instruction of their intent; off: the paper's ablation")
    pool_instruction: bool = Field(
        True, description="a query's vector is the mean over its instruction as well; a small corpus needs it without"
    )

    def identity(self) -> dict[str, Any]:
        """Hyperparameters and the instructions that queries carry."""
        return super().identity() | {"instructions": prompts() if self.instruct else {}}


def prompts() -> dict[str, str]:
    """Intent -> the text put before its queries."""
    return {name: intent.instruction + SEPARATOR for name, intent in load_intents(domain_folder()).items()}


def train_on_triplets(inputs: Inputs, params: TripletParams, run: Run, name: str, summary: str) -> Path:
    """Train the model ``init`` on the rows of ``triplets`` and export its best checkpoint, asked with instructions.

    Where no checkpoint is as good on development queries as the model that it starts from, asked as that one wants to
    be asked, that model is the result.

    Args:
        inputs: ``triplets``, with a teacher's scores or without, and ``init``.
        params: hyperparameters.
        run: its counters tell how it went.
        name: of the model, for its card.
        summary: what it is, for its card.

    Raises:
        InputError: there are no training triplets.
    """
    rows = inputs["triplets"].table().to_pylist()
    train = [row for row in rows if row["split"] == "train"]
    dev = [row for row in rows if row["split"] == "dev"]
    if not train:
        raise InputError(f"{inputs['triplets'].manifest.ref} has no training rows; label more queries or raise alpha")
    run.count("training_queries", len(train))
    run.count("dev_queries", len(dev))
    init = inputs["init"]
    card = {
        "name": name,
        "summary": summary,
        "initialised from": str(init.manifest.ref),
        "data": str(inputs["triplets"].manifest.ref),
    }
    folder = init.lay_out(run.scratch / "init")
    start = (folder, layout_of_folder(folder))
    layout = Layout(
        start[1].pooling,
        params.max_passage_length,
        prefixes=prompts() if params.instruct else {},
        pools_prefix=params.pool_instruction or not params.instruct,
        append=start[1].append,
        needs_intent=params.instruct,
    )
    examples = _training_set(train, layout, params.n_negatives)
    return train_and_export(examples, partial(_dev_set, dev), start, params, run, card, layout)


def _training_set(rows: list[dict], layout: Layout, n_negatives: int | None) -> TrainingSet:
    return TrainingSet(
        positive_ids=[row["positive_id"] for row in rows],
        passages=_passages(rows),
        negative_ids=[row["negative_ids"][:n_negatives] for row in rows],
        teacher_scores=list(_taught(rows, n_negatives)),
        **asked([row["query"] for row in rows], [row["intent"] for row in rows], layout),
    )


def _taught(rows: list[dict], n_negatives: int | None) -> Iterator[list[float]]:
    """A teacher's scores of each row's positive and negatives, nothing of a row without a teacher."""
    for row in rows:
        scored = "teacher_positive_score" in row
        yield [row["teacher_positive_score"], *row["teacher_negative_scores"][:n_negatives]] if scored else []


def _dev_set(rows: list[dict], layout: Layout) -> DevSet:
    queries = asked([row["query"] for row in rows], [row["intent"] for row in rows], layout)
    return DevSet(positive_ids=[row["positive_id"] for row in rows], passages=_passages(rows), **queries)


def _passages(rows: list[dict]) -> dict[str, str]:
    found = {row["positive_id"]: row["positive"] for row in rows}
    for row in rows:
        found.update(zip(row["negative_ids"], row["negatives"], strict=True))
    return found
