"""The hyperparameters of one contrastive training run."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TrainConfig(BaseModel):
    """Everything besides data and backbone that decides the trained weights.

    ``in_batch=True`` is pre-training with in-batch negatives (DMRetriever Eq. 2), ``in_batch=False``
    fine-tuning on each row's own hard negatives (Eq. 4); ``in_batch=True`` on rows that have negatives uses
    both kinds.

    Units:
        Lengths and budgets count tokens; ratios are fractions of all optimiser steps.

    Source:
        DMRetriever, appendix I: temperature 0.01, nine negatives, bfloat16, 512 tokens, AdamW. Warm-up,
        weight decay and clipping are not given there; the defaults here are the customary ones.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(1, ge=1)
    batch_size: int = Field(32, ge=1, description="queries per optimiser step")
    learning_rate: float = Field(4e-5, gt=0)
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    temperature: float = Field(0.01, gt=0)
    max_query_length: int = Field(128, ge=3)
    max_passage_length: int = Field(256, ge=3)
    n_negatives: int = Field(9, ge=0, description="at most this many of a row's own negatives, the first ones")
    in_batch: bool = Field(False, description="the other passages of the batch are negatives too")
    seed: int = Field(0, ge=0)
    threads: int = Field(2, ge=1, description="CPU threads; another number may change the last bits")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="auto: bf16 on a GPU, fp32 on a CPU")
    evals_per_epoch: int = Field(1, ge=1)
    checkpoint_every_steps: int = Field(200, ge=1)
    micro_batch_tokens: int = Field(1024, ge=1, description="padded tokens of one forward pass")
    graph_tokens: int = Field(4096, ge=1, description="tokens whose activations may be in memory at once")

    @model_validator(mode="after")
    def _has_negatives(self) -> Self:
        if not self.in_batch and self.n_negatives == 0:
            raise ValueError("no negatives: set in_batch=True or n_negatives >= 1")
        return self
