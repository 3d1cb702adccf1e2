"""Stage 3: one iteration of instruction fine-tuning on MTT-alpha, from the best checkpoint of the one before."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import TRIPLETS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.training.common import asked, train_and_export
from pipeline_tasks.training.examples import DevSet, TrainingSet
from pipeline_tasks.training.params import TrainParams

SEPARATOR = ": "


class FinetuneParams(TrainParams):
    """Hyperparameters of one iteration."""

    stage: ClassVar[StageName] = "finetune"

    alpha: float = Field(0.65, gt=0, le=1, description="difficulty of the triplets")
    n_negatives: int | None = Field(
        None, ge=1, description="of each query's negatives the first so many; empty: all that were mined"
    )
    in_batch: bool = Field(False, description="the batch's other passages are negatives as well; Equation 4 has none")
    pool_instruction: bool = Field(
        True, description="a query's vector is the mean over its instruction as well; a small corpus needs it without"
    )

    def identity(self) -> dict[str, Any]:
        """Hyperparameters and the instructions that queries carry."""
        return super().identity() | {"instructions": prompts()}


def prompts() -> dict[str, str]:
    """Intent -> the text put before its queries."""
    return {name: intent.instruction + SEPARATOR for name, intent in load_intents(domain_folder()).items()}


@step(
    reads={"triplets": From(TRIPLETS, "mtt/{alpha}"), "init": From(None, "model/{size}/pretrain")},
    writes=None,
    kind="reduce",
    dataset="model/{size}/finetune",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def finetune(inputs: Inputs, params: FinetuneParams, run: Run) -> Path:
    """Fine-tune on each query's own hard negatives; queries carry the instruction of their intent.

    An iteration is a version of ``model/<size>/finetune`` made from the one before it, so that the schedule of
    difficulties is its chain of ancestors. Where no checkpoint is as good on development queries as the model that it
    starts from, asked as that one wants to be asked, that model is the result.

    Source: DMRetriever 3.4.4, Equation 4, Algorithm 1 lines 8 to 12.

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
        "name": f"{params.size} finetune at alpha {params.alpha}",
        "summary": "Dense retriever after difficulty-aware instruction fine-tuning.",
        "initialised from": str(init.manifest.ref),
        "data": str(inputs["triplets"].manifest.ref),
    }
    folder = init.lay_out(run.scratch / "init")
    layout = Layout(
        "mean",
        params.max_passage_length,
        prefixes=prompts(),
        pools_prefix=params.pool_instruction,
        needs_intent=True,
    )
    start = (folder, layout_of_folder(folder))
    examples = _training_set(train, layout, params.n_negatives)
    return train_and_export(examples, partial(_dev_set, dev), start, params, run, card, layout)


def _training_set(rows: list[dict], layout: Layout, n_negatives: int | None) -> TrainingSet:
    return TrainingSet(
        positive_ids=[row["positive_id"] for row in rows],
        passages=_passages(rows),
        negative_ids=[row["negative_ids"][:n_negatives] for row in rows],
        **asked([row["query"] for row in rows], [row["intent"] for row in rows], layout),
    )


def _dev_set(rows: list[dict], layout: Layout) -> DevSet:
    queries = asked([row["query"] for row in rows], [row["intent"] for row in rows], layout)
    return DevSet(positive_ids=[row["positive_id"] for row in rows], passages=_passages(rows), **queries)


def _passages(rows: list[dict]) -> dict[str, str]:
    found = {row["positive_id"]: row["positive"] for row in rows}
    for row in rows:
        found.update(zip(row["negative_ids"], row["negatives"], strict=True))
    return found
