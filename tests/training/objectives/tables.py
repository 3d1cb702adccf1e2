"""A small table of scores with everything that makes one ragged, in double precision."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pipeline_tasks.training.objective import Table

POSITIVES = [0, 1, 4, 2]
OWN = [[0, 2, 3], [1, 4, 5, 6], [4], [2, 0, 6]]
"""Per row its positive and its negatives; the third has none."""


def example(temperature: float = 0.2, width: int = 8) -> tuple[Tensor, Tensor, Table]:
    """Queries [4, d], passages [7, d] and their table: own candidates, a teacher of all rows but the last."""
    random = torch.Generator().manual_seed(3)
    queries, passages, targets = (
        torch.randn(n, m, generator=random, dtype=torch.float64) for n, m in ((4, width), (7, width), (4, 7))
    )
    candidates = torch.zeros(4, 7, dtype=torch.bool)
    for row, own in enumerate(OWN):
        candidates[row, own] = True
    targets[~candidates] = float("nan")
    targets[3] = float("nan")
    answers = torch.zeros(4, 7, dtype=torch.bool)
    answers[range(4), POSITIVES] = True
    unit = [functional.normalize(side, dim=1).requires_grad_() for side in (queries, passages)]
    return *unit, Table(torch.tensor(POSITIVES), candidates, answers, targets, temperature)


def arrays(queries: Tensor, passages: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The same embeddings for numpy."""
    return queries.detach().numpy(), passages.detach().numpy()


def softmax(values: np.ndarray) -> np.ndarray:
    """Of a vector, by the book."""
    return np.exp(values) / np.exp(values).sum()
