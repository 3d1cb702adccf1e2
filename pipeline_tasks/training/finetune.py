"""Stage 3: one iteration of instruction fine-tuning on MTT-alpha, from the best checkpoint of the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TRIPLETS
from pipeline_tasks.training.common import TrainParams, prompts, train_and_export
from pipeline_tasks.training.examples import DevSet, TrainingSet
from pipeline_tasks.training.sizes import get_size


class FinetuneParams(TrainParams):
    """Hyperparameters of one iteration."""

    alpha: float = Field(0.65, gt=0, le=1, description="difficulty of the triplets")
    in_batch: bool = Field(False, description="the batch's other passages are negatives as well; Equation 4 has none")

    pool_instruction: bool = Field(
        True, description="a query's vector is the mean over its instruction as well; a small corpus needs it without"
    )

    def identity(self) -> dict[str, Any]:
        """Hyperparameters and the instructions that queries carry."""
        return super().identity() | {"instructions": prompts()}


@step(
    reads={"triplets": From(TRIPLETS, "mtt/{alpha}"), "init": From(None, "model/{size}/pretrain")},
    writes=None,
    kind="reduce",
    dataset="model/{size}/finetune",
    image="gpu",
    pool="gpu",
    memory_gib=8,
)
def finetune(inputs: Inputs, params: FinetuneParams, run: Run) -> Path:
    """Fine-tune on each query's own hard negatives; queries carry the instruction of their intent.

    An iteration is a version of ``model/<size>/finetune`` made from the one before it, so that the schedule of
    difficulties is its chain of ancestors.

    Source: DMRetriever 3.4.4, Equation 4, Algorithm 1 lines 8 to 12.

    Raises:
        InputError: there are no training triplets.
    """
    size = get_size(params.size)
    rows = inputs["triplets"].table().to_pylist()
    train = [row for row in rows if row["split"] == "train"]
    dev = [row for row in rows if row["split"] == "dev"]
    if not train:
        raise InputError(f"{inputs['triplets'].manifest.ref} has no training rows; label more queries or raise alpha")
    run.count("training_queries", len(train))
    run.count("dev_queries", len(dev))
    before = prompts()
    examples = TrainingSet(
        queries=[before[row["intent"]] + row["query"] for row in train],
        positive_ids=[row["positive_id"] for row in train],
        passages=_passages(train),
        negative_ids=[row["negative_ids"] for row in train],
        unpooled=_unpooled(train, params),
    )
    dev_set = DevSet(
        [before[row["intent"]] + row["query"] for row in dev],
        [row["positive_id"] for row in dev],
        _passages(dev),
        _unpooled(dev, params),
    )
    config = params.config(
        learning_rate=size.finetune_learning_rate, batch_size=size.finetune_batch_size, in_batch=params.in_batch
    )
    init = inputs["init"]
    card = {
        "name": f"{params.size} finetune at alpha {params.alpha}",
        "summary": "Dense retriever after difficulty-aware instruction fine-tuning.",
        "initialised from": str(init.manifest.ref),
        "data": str(inputs["triplets"].manifest.ref),
    }
    backbone = init.lay_out(run.scratch / "init")
    return train_and_export(examples, dev_set, backbone, config, run, card, pool_prompt=params.pool_instruction)


def _unpooled(rows: list[dict], params: FinetuneParams) -> list[str]:
    before = prompts()
    return [] if params.pool_instruction else [before[row["intent"]] for row in rows]


def _passages(rows: list[dict]) -> dict[str, str]:
    found = {row["positive_id"]: row["positive"] for row in rows}
    for row in rows:
        found.update(zip(row["negative_ids"], row["negatives"], strict=True))
    return found
