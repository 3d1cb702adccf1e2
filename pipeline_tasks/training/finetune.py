"""Stage 3: one iteration of instruction fine-tuning on MTT-alpha, from the best checkpoint of the one before."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, added, step
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS
from pipeline_tasks.models.sizes import StageName, get_size
from pipeline_tasks.models.start import EmbeddingStartParams
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.stage import check_start
from pipeline_tasks.training.triplets import TripletParams, train_on_triplets


class FinetuneParams(EmbeddingStartParams, TripletParams):
    """Hyperparameters of one iteration."""

    stage: ClassVar[StageName] = "finetune"
    start_from: ClassVar[tuple[str, ...]] = ()

    alpha: float = Field(0.65, gt=0, le=1, description="difficulty level of the triplets: alpha of mine_negatives")
    triplets_from: tuple[str, ...] = added(
        (), description="further triplet builds to train on, such as mtt/0.85; each build is a source"
    )
    pretrained: bool = added(
        True, description="start from a trained model; off: from the backbone, without pre-training (paper's ablation)"
    )

    def model_post_init(self, context: Any) -> None:
        """Look at the backbone where it is named or trained."""
        if self.pretrained and not self.backbone:
            self._start = None
        else:
            super().model_post_init(context)

    @property
    def instead(self) -> str:
        """What to do where a backbone does not embed."""
        return "leave pretrained=false out, or name a size or backbone that embeds"

    def identity(self) -> dict[str, Any]:
        """Hyperparameters, and the backbone where it is what trains."""
        found = super().identity()
        return {name: value for name, value in found.items() if name != "backbone" or not self.pretrained}

    def unread(self) -> frozenset[str]:
        """The model to start from, where that is the backbone."""
        return frozenset() if self.pretrained else frozenset({"init"})

    def check_inputs(self, inputs: Collection[str]) -> None:
        """Refuse two models to start from, and a backbone that does not embed."""
        if self.pretrained:
            return
        if "init" in inputs:
            raise InputError("pretrained=false starts from the backbone, and init names another start: name one")
        if not self.backbone and get_size(self.size).decoder:
            raise InputError(
                f"pretrained=false, and size={self.size!r} has a decoder, which is adapted first: leave pretrained out "
                f"and name --input init=model/{self.size}/adapt"
            )
        super().check_inputs(inputs)

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse a backbone that ``init`` was not made from, also of what is made: the id does not have it."""
        super().check_versions(inputs)
        if self.pretrained and "init" in inputs:
            check_start(inputs["init"], self)


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
        InputError: there are no training triplets, or a backbone is named that ``init`` was not made from.
    """
    summary = "Dense retriever after difficulty-aware instruction fine-tuning."
    return train_on_triplets(inputs, params, run, f"{params.size} finetune at alpha {params.alpha}", summary)
