"""ListMLE against the likelihood of an order written out."""

import numpy as np
import pytest
import torch

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, arrays, example

LIST_MLE = objective("list_mle")


def test_equals_the_likelihood_of_the_teachers_order() -> None:
    queries, passages, table = example()
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for row in (0, 1, 2):
        order = sorted(OWN[row], key=lambda column: -table.targets[row, column].item())
        weights = np.exp(p[order] @ q[row] / table.temperature)
        chances = [weights[place] / weights[place:].sum() for place in range(len(order))]
        by_hand -= np.log(chances).sum() / len(OWN)
    assert LIST_MLE.loss(queries, passages, table).item() == pytest.approx(by_hand, rel=1e-10)


def test_of_two_candidates_it_is_info_nce_with_the_teachers_first() -> None:
    queries, passages, table = example()
    pairs = torch.zeros_like(table.candidates)
    pairs[:, [2, 5]] = True
    targets = torch.full_like(table.targets, float("nan"))
    targets[:, 2], targets[:, 5] = torch.tensor([[1.0, 2.0, 3.0, 0.0], [0.0, 9.0, 1.0, 4.0]], dtype=torch.float64)
    first = torch.tensor([2, 5, 2, 5])
    pairwise = Table(first, pairs, table.answers, targets, table.temperature)
    expected = objective("info_nce").loss(queries, passages, pairwise).item()
    assert LIST_MLE.loss(queries, passages, pairwise).item() == pytest.approx(expected, rel=1e-12)


def test_reads_the_order_and_not_the_scores() -> None:
    queries, passages, table = example()
    before = LIST_MLE.loss(queries, passages, table).item()
    table.targets.mul_(100).add_(7)
    assert LIST_MLE.loss(queries, passages, table).item() == before
