"""The family's sizes: typed entries of ``data/sizes.toml``. Light to import, so that DAGs can read it.

Source: DMRetriever, Table 1, appendix D and I, and Table 8.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import DATA, Entry, ModelSpec, get

StageName = Literal["adapt", "pretrain", "finetune", "distill", "corpus", "instructions"]


class Stage(Entry):
    """How one stage trains a size, where its caller says nothing else.

    Source: DMRetriever, appendix I: temperature 0.01, 512 tokens.
    """

    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1)
    temperature: float = Field(0.01, gt=0)
    max_query_length: int = Field(512, ge=8)
    max_passage_length: int = Field(512, ge=16)


_OF_LISTS = {"learning_rate": 2e-5, "batch_size": 16, "temperature": 0.05}
"""What adaptation to a corpus has of its own, where a size says nothing else.

Source: BMEmbed, appendix C, for the learning rate. Departures: its steps learn from one list, and its cosines are not
scaled.
"""

_OF_TUPLES = {"learning_rate": 5e-5, "batch_size": 96}
"""What training on instructed tuples has of its own, where a size says nothing else.

Source: InF-IR, appendix F.1: 32 tuples, of three rows each.
"""


class Pieces(Entry):
    """What of a batch is worked on at once, in tokens."""

    micro_batch_tokens: int = Field(ge=1, description="padded tokens of one forward pass")
    graph_tokens: int = Field(ge=1, description="tokens whose activations may be in memory at once")


ON_PROCESSOR = Pieces(micro_batch_tokens=1024, graph_tokens=4096)


class LoraOf(Entry):
    """Which adapters train instead of all weights.

    Source: DMRetriever, appendix I: rank 16, alpha 32 for decoder-only backbones, in every stage. It names no layers:
    here all projections of a block, as in Wang et al. 2023 (arXiv 2401.00368), whom it follows.
    """

    rank: int = Field(16, ge=0, description="0: no adapters, all weights train")
    alpha: int = Field(32, ge=1)
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Size(Entry):
    """One member of the family."""

    backbone: str = Field(description="the model that it starts from, by its name in the registry")
    decoder: bool = Field(False, description="a decoder-only backbone, which needs bidirectional adaptation first")
    alphas: tuple[float, ...] = Field(min_length=1, description="difficulty of each fine-tuning iteration, in order")
    lora: LoraOf = Field(LoraOf(rank=0, alpha=32, targets=()), description="without an entry all weights train")
    adapt: Stage | None = Field(None, description="bidirectional adaptation of a decoder")
    on_gpu: Pieces = Field(description="of a batch, where a GPU trains, which of few tokens makes no use")
    most_tflops: float | None = Field(None, gt=0, description="10^12 operations a second that training reached")
    pretrain: Stage
    finetune: Stage
    distill: Stage | None = Field(None, description="as fine-tuning, unless there is one")
    corpus: Stage | None = Field(None, description="adaptation to a corpus, from lists of a ranking")
    instructions: Stage | None = Field(None, description="following instructions, from tuples")

    def pieces(self, device: str) -> Pieces:
        """What of a batch is worked on at once on a kind of device."""
        return self.on_gpu if device == "cuda" else ON_PROCESSOR

    def stage(self, name: StageName) -> Stage:
        """How the stage of that name trains it.

        Raises:
            InputError: there is nothing to adapt.
        """
        stages = {"pretrain": self.pretrain, "finetune": self.finetune, "distill": self.distill or self.finetune}
        lists = self.corpus or self.finetune.model_copy(update=_OF_LISTS)
        tuples = self.instructions or self.finetune.model_copy(update=_OF_TUPLES)
        found = (stages | {"adapt": self.adapt, "corpus": lists, "instructions": tuples})[name]
        if found is None:
            raise InputError(f"{self.backbone} attends both ways already: adapt_backbone is for sizes with a decoder")
        return found


def read_sizes(file: Path) -> dict[str, Size]:
    """The sizes that a file describes, in its order.

    Raises:
        InputError: it is no TOML, or an entry lacks something or has what no size has; it names file and size.
    """
    try:
        return TypeAdapter(dict[str, Size]).validate_python(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        size, *where = map(str, error.errors()[0]["loc"])
        raise InputError(
            f"{file}: size {size}: {'.'.join(where)}: {error.errors()[0]['msg']}; docs/recipes.md says what a size has"
        ) from error
    except ValueError as error:
        raise InputError(f"{file} is no TOML: {error}") from error


SIZES = read_sizes(DATA / "sizes.toml")


def get_size(name: str) -> Size:
    """The size called ``name``.

    Raises:
        InputError: the family has no such size.
    """
    if name not in SIZES:
        raise InputError(f"size={name!r} is not in the family; sizes are {', '.join(SIZES)}")
    return SIZES[name]


def alpha_of(size: str, chosen: Sequence[str] | None, iteration: int) -> object:
    """Difficulty of the 0-based ``iteration``, of those chosen or the size's own; empty where there is no such one."""
    return dict(enumerate(chosen or SIZES[size].alphas)).get(iteration, "")


def adapts(size: str, causal: bool | None) -> bool:
    """Whether training starts with bidirectional adaptation: of a decoder, unless it is to stay causal."""
    return get_size(size).decoder and not causal


def backbone(size: str) -> ModelSpec:
    """What a member of the family starts from.

    Raises:
        InputError: the family has no such size.
    """
    return get(get_size(size).backbone)
