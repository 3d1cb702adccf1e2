"""After stage 3, for small models: what a teacher makes of each triplet, beside the labels."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import INSTRUCTED_SCORED_TRIPLETS
from pipeline_tasks.models.sizes import StageName
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.objectives import AnyObjective
from pipeline_tasks.training.triplets import TripletParams, train_on_triplets


class DistillParams(TripletParams):
    """Hyperparameters of a distillation; those of the size are its fine-tuning's."""

    stage: ClassVar[StageName] = "distill"

    alpha: float = Field(
        0.95, gt=0, le=1, description="difficulty level of the triplets that a teacher scored: alpha of mine_negatives"
    )
    objective: AnyObjective = Field(
        "kl_distillation",
        validate_default=True,
        description="loss function: a name, or JSON of name and parameters",
    )


@step(
    reads={
        "triplets": From(INSTRUCTED_SCORED_TRIPLETS, "mtt/{alpha}-kd"),
        "init": From(None, "model/{size}/finetune"),
        **judged_dev.READS,
    },
    writes=None,
    kind="reduce",
    dataset="model/{size}/distill",
    version="6",
    image="gpu",
    pool="gpu",
    memory_gib=8,
    resumes=True,
)
def distill(inputs: Inputs, params: DistillParams, run: Run) -> Path:
    """Train on hard negatives and on a teacher's scores of them; queries carry their own instruction or their intent's.

    Where no checkpoint is as good on development queries as the model that it starts from, that model is the result.

    Source: DMRetriever 5.3 and appendix L, lambda = 1; learning rate and batch size, which it does not give for
    distillation, are those of fine-tuning.

    Raises:
        InputError: there are no training triplets, or none has a teacher's scores.
    """
    summary = "Dense retriever after distillation from a teacher's scores of its triplets."
    return train_on_triplets(inputs, params, run, f"{params.size} distill at alpha {params.alpha}", summary)
