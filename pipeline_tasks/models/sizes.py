"""The family's sizes: typed entries of ``data/sizes.toml``. Light to import, so that DAGs can read it.

Source: DMRetriever, Table 1, appendix D and I, and Table 8.
"""

from __future__ import annotations

import tomllib
from typing import Literal

from pydantic import Field, TypeAdapter

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import DATA, Entry, ModelSpec, get

StageName = Literal["pretrain", "finetune", "distill"]


class Stage(Entry):
    """How one stage trains a size, where its caller says nothing else.

    Source: DMRetriever, appendix I: temperature 0.01. Departure: texts are cut at 128 and 256 tokens, not at 512.
    """

    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    temperature: float = Field(0.01, gt=0)
    max_query_length: int = Field(128, ge=8)
    max_passage_length: int = Field(256, ge=16)


class Size(Entry):
    """One member of the family."""

    backbone: str = Field(description="the model that it starts from, by its name in the registry")
    decoder: bool = Field(False, description="a decoder-only backbone, which needs bidirectional adaptation first")
    alphas: tuple[float, ...] = Field(min_length=1, description="difficulty of each fine-tuning iteration, in order")
    pretrain: Stage
    finetune: Stage
    distill: Stage | None = Field(None, description="as fine-tuning, unless there is one")

    def stage(self, name: StageName) -> Stage:
        """How the stage of that name trains it."""
        stages = {"pretrain": self.pretrain, "finetune": self.finetune, "distill": self.distill or self.finetune}
        return stages[name]


SIZES = TypeAdapter(dict[str, Size]).validate_python(tomllib.loads((DATA / "sizes.toml").read_text(encoding="utf-8")))


def get_size(name: str) -> Size:
    """The size called ``name``.

    Raises:
        InputError: the family has no such size.
    """
    if name not in SIZES:
        raise InputError(f"size={name!r} is not in the family; sizes are {', '.join(SIZES)}")
    return SIZES[name]


def backbone(size: str) -> ModelSpec:
    """What a member of the family starts from.

    Raises:
        InputError: the family has no such size.
    """
    return get(get_size(size).backbone)
