"""What the backbones' matrices look like: parameters are counted, and work is, where no weights are at hand."""

from __future__ import annotations

import tomllib
from typing import Literal, NamedTuple

from pydantic import Field, TypeAdapter

from pipeline_tasks.models.registry import DATA, Entry


class Matrix(NamedTuple):
    """A linear layer of every block: the last part of its name, and its width on both sides."""

    name: str
    width_in: int
    width_out: int


class Shape(Entry):
    """A trunk without its head, as transformers builds it.

    Units:
        Widths count features: h ``width``, q ``query_width``, kv ``key_value_width``, f ``mlp_width``.
    """

    architecture: Literal["bert", "llama", "qwen3"]
    layers: int = Field(ge=1)
    width: int = Field(ge=1)
    mlp_width: int = Field(ge=1)
    heads: int = Field(ge=1)
    key_value_heads: int | None = Field(None, ge=1, description="fewer than heads where these share keys and values")
    head_width: int = Field(ge=1)
    vocabulary: int = Field(ge=1)
    positions: int = Field(0, ge=0, description="learned embeddings of places; 0: places are rotations")
    tied: bool = Field(True, description="the head that predicts tokens is the embedding matrix itself")

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate beside its first matrix."""
        return self.architecture != "bert"

    @property
    def query_width(self) -> int:
        """Of all heads' queries together."""
        return self.heads * self.head_width

    @property
    def key_value_width(self) -> int:
        """Of all heads' keys together."""
        return (self.key_value_heads or self.heads) * self.head_width

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The linear layers of one block."""
        h, q, kv, f = self.width, self.query_width, self.key_value_width, self.mlp_width
        if self.architecture == "bert":
            attention = [Matrix("query", h, q), Matrix("key", h, kv), Matrix("value", h, kv), Matrix("dense", q, h)]
            return (*attention, Matrix("dense", h, f), Matrix("dense", f, h))
        attention = [Matrix("q_proj", h, q), Matrix("k_proj", h, kv), Matrix("v_proj", h, kv), Matrix("o_proj", q, h)]
        return (*attention, Matrix("gate_proj", h, f), Matrix("up_proj", h, f), Matrix("down_proj", f, h))

    @property
    def matrix_params(self) -> int:
        """Parameters that every token is multiplied by: those of the blocks' matrices."""
        return self.layers * sum(matrix.width_in * matrix.width_out for matrix in self.matrices)

    @property
    def pooler_params(self) -> int:
        """Of BERT's pooler, which is held, neither used nor trained."""
        return self.width**2 + self.width if self.architecture == "bert" else 0

    @property
    def n_params(self) -> int:
        """All parameters: matrices, embeddings, normalisation, and biases where there are any.

        BERT: h (v + positions + 2 segments) + 2h, a bias per matrix output and 4h of normalisation a block, the pooler.
        Llama: h v, 2h of normalisation a block, h at the end; no biases. Qwen3: 2 head widths a block more.
        """
        h = self.width
        if self.architecture == "bert":
            biases = sum(matrix.width_out for matrix in self.matrices)
            embeddings = h * (self.vocabulary + self.positions + 2) + 2 * h
            return embeddings + self.matrix_params + self.layers * (biases + 4 * h) + self.pooler_params
        of_heads = 2 * self.head_width if self.architecture == "qwen3" else 0
        return h * self.vocabulary + self.matrix_params + self.layers * (2 * h + of_heads) + h

    def adapter_params(self, rank: int, targets: tuple[str, ...]) -> int:
        """Of adapters of that rank on the blocks' matrices of these names, or on all: rank (in + out) each."""
        chosen = [m for m in self.matrices if m.name in targets or not targets]
        return self.layers * rank * sum(m.width_in + m.width_out for m in chosen)


SHAPES = TypeAdapter(dict[str, Shape]).validate_python(
    tomllib.loads((DATA / "shapes.toml").read_text(encoding="utf-8"))
)
"""Backbone -> its shape."""
