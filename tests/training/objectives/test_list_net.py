"""ListNet against the cross-entropy written out, and its two ends."""

import numpy as np
import pytest
import torch

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, arrays, example, softmax


def loss_at(alpha: float) -> float:
    return objective({"name": "list_net", "alpha": alpha}).loss(*example()).item()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 10.0])
def test_equals_the_cross_entropy_with_the_teacher(alpha: float) -> None:
    queries, passages, table = example()
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for row in (0, 1, 2):
        target = softmax(table.targets[row, OWN[row]].numpy() / alpha)
        by_hand -= target @ np.log(softmax(p[OWN[row]] @ q[row] / table.temperature)) / len(OWN)
    assert loss_at(alpha) == pytest.approx(by_hand, rel=1e-10)


def test_at_a_small_alpha_it_is_info_nce_with_the_teachers_first() -> None:
    queries, passages, table = example()
    rows = slice(0, 3)
    first = table.targets[rows].nan_to_num(-9).argmax(dim=1)
    parts = (table.candidates[rows], table.answers[rows], table.targets[rows])
    expected = objective("info_nce").loss(queries[rows], passages, Table(first, *parts, table.temperature))
    assert loss_at(1e-4) == pytest.approx(expected.item() * 3 / 4, rel=1e-9)


def test_at_a_large_alpha_the_target_is_uniform() -> None:
    queries, passages, table = example()
    scores = table.scores(queries, passages).log_softmax(dim=1)
    uniform = -sum(scores[row, own].mean() for row, own in enumerate(OWN[:3])) / 4
    assert loss_at(1e6) == pytest.approx(uniform.item(), rel=1e-4)
    assert torch.isfinite(uniform)
