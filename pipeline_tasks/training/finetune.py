"""Stage 3: one iteration of instruction fine-tuning on MTT-alpha, from the best checkpoint of the one before."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, added, step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.triplets import TripletParams, train_on_triplets


class FinetuneParams(TripletParams):
    """Hyperparameters of one iteration."""

    stage: ClassVar[StageName] = "finetune"

    alpha: float = Field(0.65, gt=0, le=1, description="difficulty level of the triplets: alpha of mine_negatives")
    triplets_from: tuple[str, ...] = added(
        (), description="further triplet builds to train on, such as mtt/0.85; each build is a source"
    )


@step(
    reads={
        "triplets": From(INSTRUCTED_TRIPLETS, "mtt/{alpha}"),
        "further": From(INSTRUCTED_TRIPLETS, "{item}", each="triplets_from"),
        "init": From(None, "model/{size}/pretrain"),
        **judged_dev.READS,
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/finetune",
    version="7",
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
    summary = "Dense retriever after difficulty-aware instruction fine-tuning."
    return train_on_triplets(inputs, params, run, f"{params.size} finetune at alpha {params.alpha}", summary)
