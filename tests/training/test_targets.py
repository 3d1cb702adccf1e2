"""What a decision sees of a target."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives.info_nce import InfoNCE
from pipeline_tasks.training.targets import least_loss


@pytest.fixture
def vectors() -> tuple[Tensor, Tensor]:
    """Of 24 queries and their positives, near each other as by an encoder that knows something."""
    random = torch.Generator().manual_seed(3)
    passages = torch.randn(24, 16, generator=random, dtype=torch.float64)
    queries = passages + 1.5 * torch.randn(24, 16, generator=random, dtype=torch.float64)
    normalize = torch.nn.functional.normalize
    return normalize(queries), normalize(passages)


def table(temperature: float, n: int = 24) -> Table:
    """A square of pairs."""
    own, nothing = torch.eye(n, dtype=torch.bool), torch.full((n, n), float("nan"))
    return Table(torch.arange(n), torch.ones(n, n, dtype=torch.bool), own, nothing, temperature)


def closer(part: Tensor, share: float) -> Tensor:
    """All texts brought closer together: every cosine c becomes (1 - share) c + share."""
    return torch.cat([part * (1 - share) ** 0.5, torch.full((len(part), 1), share**0.5, dtype=part.dtype)], dim=1)


def test_least_loss_is_the_least_of_all_temperatures(vectors: tuple[Tensor, Tensor]) -> None:
    tried = [InfoNCE().loss(*vectors, table(float(t))).item() for t in np.geomspace(0.001, 1, 2000)]
    assert least_loss(*vectors, table(0.01)) == pytest.approx(min(tried), rel=1e-5)


def test_bringing_all_texts_closer_together_is_rewarded_by_the_loss_alone(vectors: tuple[Tensor, Tensor]) -> None:
    duller = closer(vectors[0], 0.3), closer(vectors[1], 0.3)
    assert InfoNCE().loss(*duller, table(0.01)) < 0.75 * InfoNCE().loss(*vectors, table(0.01))
    assert least_loss(*duller, table(0.01)) == pytest.approx(least_loss(*vectors, table(0.01)), rel=1e-5)


def test_an_encoder_that_errs_less_has_a_lower_least_loss(vectors: tuple[Tensor, Tensor]) -> None:
    queries, passages = vectors
    better = torch.nn.functional.normalize(queries + passages)
    assert least_loss(better, passages, table(0.01)) < 0.5 * least_loss(queries, passages, table(0.01))
    assert least_loss(passages, passages, table(0.01)) == pytest.approx(0, abs=1e-6)
