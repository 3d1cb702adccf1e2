"""The hyperparameters of a training stage: one class from the form to the optimiser."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import StepParams, added, tuning
from pipeline_tasks.encoders.devices import DeviceKind, device_kind
from pipeline_tasks.models.sizes import StageName, get_size
from pipeline_tasks.training.data import judged_dev
from pipeline_tasks.training.data.mixture import Mixture
from pipeline_tasks.training.named import without_code
from pipeline_tasks.training.objective import Objective
from pipeline_tasks.training.objectives import AnyObjective
from pipeline_tasks.training.objectives.kl_distillation import KLDistillation
from pipeline_tasks.training.objectives.matryoshka import Matryoshka
from pipeline_tasks.training.samplers import AnySampler

Unit = Literal["source", "intent", "all"]
Precision = Literal["fp32", "bf16"]
Sharding = Literal["", "zero1", "fsdp"]


def resolved(**kwargs: Any) -> Any:
    """A parameter whose value, where it is left empty, comes from the size's data or from this machine."""
    return Field(None, validate_default=True, **kwargs)


class OptimiserParams(StepParams):
    """What every stage lets its caller choose: how weights are changed, which of them, and on what machine.

    An instance has a value in every field: what its caller left empty is filled in before the version's id is made of
    it, so that the id holds what the optimiser reads. ``device`` is then that of the machine that plans the run (a GPU
    and a processor give different weights), and ``precision`` that of the device.

    Units:
        Lengths and budgets count tokens; ratios are fractions of all optimiser steps.

    Source:
        DMRetriever, appendix I: bfloat16; :mod:`~pipeline_tasks.models.sizes` for what may depend on the size.
        Departure: a processor computes in fp32. The paper names neither optimiser nor schedule: AdamW, warm-up, weight
        decay and clipping are the customary ones.
    """

    stage: ClassVar[StageName] = "pretrain"

    size: str = Field("33m", description="size of the model: 22m, 33m, 109m, 135m, 335m, 596m, 4b or 7.6b")
    epochs: int = Field(1, ge=1, description="passes over the training rows")
    batch_size: int = resolved(ge=1, description="queries per optimiser step; empty: the size's")
    learning_rate: float = resolved(gt=0, description="peak learning rate; empty: the size's")
    warmup_ratio: float = Field(0.1, ge=0, lt=1, description="fraction of steps used for warm-up")
    weight_decay: float = Field(0.01, ge=0, description="weight decay of AdamW; matrices only")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient clipping: largest L2 norm")
    seed: int = Field(0, ge=0, description="random seed: order of rows, dropout")
    evals_per_epoch: int = Field(4, ge=1, description="evaluations on the dev set per epoch")
    device: DeviceKind = resolved(description="device to train on; empty: a GPU where there is one")
    precision: Precision = resolved(description="numeric precision; empty: bf16 on a GPU, fp32 on a CPU")
    max_passage_length: int = resolved(ge=16, description="longest passage, in tokens; empty: the size's")
    micro_batch_tokens: int = resolved(
        ge=1, description="micro-batch: padded tokens per forward pass; empty: 1024 on a CPU, the size's on a GPU"
    )
    lora_rank: int = resolved(ge=0, description="LoRA rank; 0: full fine-tuning; empty: the size's")
    lora_alpha: int = resolved(ge=1, description="LoRA alpha: adapters are scaled by alpha / rank; empty: the size's")
    lora_targets: tuple[str, ...] = resolved(
        description="modules with LoRA adapters, such as q_proj; empty: the size's, or all"
    )
    keep_adapters: bool = Field(False, description="save the LoRA adapters too, in adapter/ beside the merged model")
    recompute: bool = tuning(False, description="gradient checkpointing: less memory, slower")
    sharding: Sharding = tuning(
        "",
        description="sharding over devices: zero1: optimiser states; fsdp: parameters and gradients too",
    )
    checkpoint_every_steps: int = tuning(50, ge=1, description="optimiser steps between checkpoints")

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, given: dict[str, Any]) -> dict[str, Any]:
        named = {name: value for name, value in given.items() if name != "lora_targets" or value}
        chosen = {name: value for name, value in named.items() if value is not None}
        size = get_size(chosen.get("size", cls.model_fields["size"].default))
        adapters = {f"lora_{name}": value for name, value in size.lora}
        device = chosen.get("device") or device_kind()
        of_size = size.stage(cls.stage).model_dump() | adapters | size.pieces(device).model_dump()
        found = {name: value for name, value in of_size.items() if name in cls.model_fields} | chosen
        found["device"] = device
        found["precision"] = chosen.get("precision") or ("bf16" if found["device"] == "cuda" else "fp32")
        return found

    @model_validator(mode="after")
    def _check_adapters(self) -> Self:
        if self.keep_adapters and not self.lora_rank:
            raise ValueError("keep_adapters=true, and lora_rank=0 trains none: set lora_rank=16, or leave it out")
        return self

    @property
    def bf16(self) -> bool:
        """Whether arithmetic is in bfloat16."""
        return self.precision == "bf16"

    def hyperparameters(self) -> dict[str, Any]:
        """All fields that decide the weights, by name; where the start lies is none of them."""
        return {name: value for name, value in StepParams.identity(self).items() if name != "backbone"}


class TrainParams(OptimiserParams):
    """Everything besides data and starting weights that decides the weights of a retriever."""

    objective: AnyObjective = Field(
        "info_nce",
        validate_default=True,
        description="loss function: a name, or JSON of name and parameters",
    )
    mixture: Mixture = Field(
        "",
        validate_default=True,
        description='JSON of source -> weight, or weight and objective: {"dm": 1, "gd/squad": 0.5}; empty: equal',
    )
    unit: Unit = added(
        "source",
        description="groups that a mixture or a sampler draws from: rows of a source, of an intent, or all as one",
    )
    clusters: int | None = added(
        None,
        ge=2,
        description="with a sampler: passage clusters per unit, to draw from; empty: whole units",
    )
    sampler: AnySampler | None = added(
        None,
        description="data sampler: how often each source is drawn: a name such as inf_dds, or JSON with parameters",
    )
    targets: tuple[str, ...] = added((), description="judged sets that guide the sampler; empty: dev queries")
    budget: int | None = added(
        None,
        ge=1,
        description="with a sampler: gradient computations in all, its decisions included; empty: epochs decide",
    )
    temperature: float = resolved(gt=0, description="softmax temperature of the loss; empty: the size's")
    max_query_length: int = resolved(
        ge=8, description="longest query, in tokens, instruction included; empty: the size's"
    )
    graph_tokens: int = resolved(
        ge=1,
        description="gradient-cache (GradCache) chunk, in tokens; empty: 4096 on a CPU, the size's on a GPU",
    )
    in_batch: bool = Field(False, description="in-batch negatives: the other passages of the batch are negatives too")
    choose_on: tuple[str, ...] = Field(
        (), max_length=1, description="judged set for checkpoint selection; empty: queries of dev documents"
    )

    @property
    def objectives(self) -> list[Objective]:
        """All that training makes small on some rows."""
        sources = [source for source in self.mixture.values() if source.weight]
        return [source.objective or self.objective for source in sources] or [self.objective]

    @property
    def max_length(self) -> int:
        """Tokens after which a trained model cuts texts, which it does not by their kind: the longer of both."""
        return max(self.max_query_length, self.max_passage_length)

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse judged sets that do not fit the passages that they are read with."""
        judged_dev.check_sets(inputs)

    def identity(self) -> dict[str, Any]:
        """What decides the weights: all hyperparameters, and what the objectives' code says."""
        mixture = {name: source.identity() for name, source in self.mixture.items()}
        sampler = {"sampler": self.sampler.identity()} if self.sampler else {}
        return super().identity() | {"objective": self.objective.identity(), "mixture": mixture} | sampler

    @classmethod
    def from_identity(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """The parameters, without what the code of objectives and samplers says."""
        named = ("objective", "mixture", "sampler")
        found = super().from_identity(identity)
        return found | {name: without_code(found[name]) for name in named if name in found}

    @model_validator(mode="after")
    def _check_objectives(self) -> Self:
        for part in (part for objective in self.objectives for part in objective.parts):
            if isinstance(part, Matryoshka) and part.weights and (min(part.weights) < 0 or not any(part.weights)):
                raise ValueError(
                    f"weights={list(part.weights)} of matryoshka: with a weight below 0 the opposite is learned, and "
                    "with 0 alone nothing: give each prefix 0 or more, and one of them more, or leave weights out"
                )
            if isinstance(part, KLDistillation) and part.hard is None and not part.weight:
                raise ValueError(
                    "kl_distillation with hard=null and weight=0 learns nothing: set weight=1, or name a loss as hard"
                )
        return self

    @model_validator(mode="after")
    def _check_sampler(self) -> TrainParams:
        if self.sampler and any(source.weight != 1 for source in self.mixture.values()):
            raise ValueError("a sampler says how often a source is seen: leave the weights of the mixture at 1")
        if not self.sampler and (self.targets or self.budget or self.clusters):
            raise ValueError("targets, clusters and budget are a sampler's: name one, such as sampler=inf_dds")
        if self.unit != "source" and not self.sampler and not self.mixture:
            raise ValueError(f"unit={self.unit!r} is what a mixture or a sampler chooses among: name one of the two")
        if self.sampler and self.sampler.decides and self.sharding == "fsdp":
            raise ValueError(
                "sharding='fsdp' divides the weights, and a sampler's decisions put all of them back: set "
                "sharding='zero1'"
            )
        for part in self.sampler.parts if self.sampler else ():
            if part.needs_clusters and not self.clusters:
                raise ValueError(f"sampler={part.name!r} weighs clusters: say how many, such as clusters=32")
        if self.sampler and self.targets and not any(part.reads_targets for part in self.sampler.parts):
            raise ValueError(f"sampler={self.sampler.name!r} looks at no targets: leave them empty, or name inf_dds")
        return self


OF_ALL_STAGES = ("max_query_length", "max_passage_length", "device", "precision")
"""Fields that a form asks for once, for all stages of a model."""
OF_A_STAGE = tuple(name for name in TrainParams.model_fields if name not in (*OF_ALL_STAGES, "size", "in_batch"))
"""Fields that a form asks for once a stage."""
OF_ADAPTATION = tuple(name for name in OF_A_STAGE if name in OptimiserParams.model_fields)
"""Those of them that the adaptation has too."""
