"""ListNet against the batch: the formula written out, and what it equals at its ends."""

import numpy as np
import pytest

from pipeline_tasks.training.objective import Table
from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, arrays, example, softmax


def loss_at(alpha: float, given) -> float:
    return objective({"name": "list_contrast", "alpha": alpha}).loss(*given).item()


@pytest.mark.parametrize("alpha", [0.5, 10.0])
def test_the_target_is_over_the_list_and_the_belief_over_every_candidate(alpha: float) -> None:
    queries, passages, table = example()
    table.candidates[:] = True
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for row in (0, 1, 2):
        belief = np.log(softmax(p @ q[row] / table.temperature))
        by_hand -= softmax(table.targets[row, OWN[row]].numpy() / alpha) @ belief[OWN[row]] / len(OWN)
    assert loss_at(alpha, (queries, passages, table)) == pytest.approx(by_hand, rel=1e-10)


def test_where_the_teacher_scored_every_candidate_it_is_list_net() -> None:
    queries, passages, table = example()
    table.candidates[:3] &= ~table.targets[:3].isnan()
    expected = objective({"name": "list_net", "alpha": 2.0}).loss(queries, passages, table)
    assert loss_at(2.0, (queries, passages, table)) == pytest.approx(expected.item(), rel=1e-12)


def test_at_a_small_alpha_it_is_info_nce_over_the_batch_with_the_teachers_first() -> None:
    queries, passages, table = example()
    rows = slice(0, 3)
    first = table.targets[rows].nan_to_num(-9).argmax(dim=1)
    parts = (table.candidates[rows], table.candidates[rows] & False, table.targets[rows])
    expected = objective("info_nce").loss(queries[rows], passages, Table(first, *parts, table.temperature))
    assert loss_at(1e-4, (queries, passages, table)) == pytest.approx(expected.item() * 3 / 4, rel=1e-9)
