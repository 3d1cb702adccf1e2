"""InfoNCE against the formula written out."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, POSITIVES, arrays, example

INFO_NCE = objective("info_nce")


def unit(*shape: int) -> torch.Tensor:
    return functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(1)), dim=-1)


def of(queries, passages, positives, candidates, temperature) -> float:
    nothing = torch.full(candidates.shape, float("nan"))
    return INFO_NCE.loss(queries, passages, Table(positives, candidates, candidates, nothing, temperature))


def test_equals_equation_two_on_a_square_of_pairs() -> None:
    vectors = unit(8, 16)
    queries, passages = vectors[:4], vectors[4:]
    loss = of(queries, passages, torch.arange(4), torch.ones(4, 4, dtype=torch.bool), 0.01)
    expected = functional.cross_entropy(queries @ passages.T / 0.01, torch.arange(4))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_equals_equation_four_with_ragged_negatives() -> None:
    queries, passages, table = example()
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for row, (positive, own) in enumerate(zip(POSITIVES, OWN, strict=True)):
        scores = {column: math.exp(q[row] @ p[column] / table.temperature) for column in own}
        by_hand -= math.log(scores[positive] / sum(scores.values())) / len(OWN)
    assert INFO_NCE.loss(queries, passages, table).item() == pytest.approx(by_hand, rel=1e-12)


def test_finite_at_the_extremes() -> None:
    query = unit(1, 8)
    passages = torch.cat([-query, query]).requires_grad_()
    loss = of(query, passages, torch.tensor([0]), torch.ones(1, 2, dtype=torch.bool), 0.01)
    loss.backward()
    assert loss.item() == pytest.approx(200.0, rel=1e-4)
    assert torch.isfinite(passages.grad).all()


def test_a_row_without_negatives_costs_nothing() -> None:
    assert of(unit(1, 8), unit(1, 8), torch.tensor([0]), torch.tensor([[True]]), 0.01).item() == 0.0


def test_passages_that_are_no_candidates_have_no_gradient() -> None:
    queries, passages, table = example()
    INFO_NCE.loss(queries, passages, table).backward()
    named = np.unique(np.concatenate([own for own in OWN if len(own) > 1]))
    moved = passages.grad.abs().sum(dim=1) > 0
    assert np.flatnonzero(moved.numpy()).tolist() == named.tolist()
