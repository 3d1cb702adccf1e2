"""Matryoshka: the first dimensions of an embedding are an embedding themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.objective import Objective, Table
from pipeline_tasks.training.objectives import AnyObjective

if TYPE_CHECKING:
    from torch import Tensor


class Matryoshka(Objective):
    """The weighted sum of another objective over prefixes of the dimensions, each L2-normalised again.

    Relations:
        With the full width alone it is the inner objective.

    Raises:
        InputError: a prefix is longer than the embeddings.

    Source:
        Kusupati et al. 2022, "Matryoshka Representation Learning", Eq. 1; Gecko 3.3 uses 768 and 256.
    """

    inner: AnyObjective = Field("info_nce", validate_default=True, description="loss of each prefix")
    dims: tuple[int, ...] = Field(min_length=1, description="dimensions of the prefixes, the full width included")
    weights: tuple[float, ...] = Field((), description="weight of each prefix; empty: 1")

    @model_validator(mode="after")
    def _as_many(self) -> Matryoshka:
        if min(self.dims) < 1 or len(self.weights) not in (0, len(self.dims)):
            raise ValueError(
                f"dims={self.dims} and weights={self.weights}: lengths from 1, and a weight for each or none"
            )
        return self

    def loss(self, queries: Tensor, passages: Tensor, table: Table) -> Tensor:
        """The sum; [b, d] and [p, d] to a scalar."""
        width = queries.shape[1]
        if max(self.dims) > width:
            raise InputError(f"dims={list(self.dims)}, but the embeddings have {width} dimensions: choose fewer")
        weights = self.weights or (1.0,) * len(self.dims)
        import torch

        losses = [
            weight * self.inner.loss(_prefix(queries, n), _prefix(passages, n), table)
            for n, weight in zip(self.dims, weights, strict=True)
        ]
        return torch.stack(losses).sum()


def _prefix(embeddings: Tensor, n: int) -> Tensor:
    """The first ``n`` dimensions, of length 1; all of them as they are."""
    if n == embeddings.shape[1]:
        return embeddings
    first = embeddings[:, :n]
    return first / first.norm(dim=1, keepdim=True).clamp(min=1e-12)
