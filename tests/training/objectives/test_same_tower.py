"""Same-tower negatives against Gecko's Eq. 3, and the queries that are none."""

import math
from dataclasses import replace

import pytest
import torch

from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import POSITIVES, arrays, example

SAME_TOWER = objective("same_tower")


def test_equals_equation_three_of_gecko_over_the_passages_of_all_rows() -> None:
    queries, passages, table = example()
    table = replace(table, candidates=torch.ones_like(table.candidates))
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for i, positive in enumerate(POSITIVES):
        of_passages = sum(math.exp(q[i] @ column / table.temperature) for column in p)
        of_queries = sum(math.exp(q[i] @ q[j] / table.temperature) for j in range(len(q)) if j != i)
        by_hand -= math.log(math.exp(q[i] @ p[positive] / table.temperature) / (of_passages + of_queries)) / len(q)
    assert SAME_TOWER.loss(queries, passages, table).item() == pytest.approx(by_hand, rel=1e-10)


def test_a_query_with_a_common_answer_is_no_negative() -> None:
    queries, passages, table = example()
    table.answers[0, POSITIVES[1]] = True
    table = replace(table, candidates=torch.ones_like(table.candidates))
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for i, positive in enumerate(POSITIVES):
        others = [j for j in range(len(q)) if j != i and {i, j} != {0, 1}]
        scores = [math.exp(q[i] @ text / table.temperature) for text in [*p, *q[others]]]
        by_hand -= math.log(math.exp(q[i] @ p[positive] / table.temperature) / sum(scores)) / len(q)
    assert SAME_TOWER.loss(queries, passages, table).item() == pytest.approx(by_hand, rel=1e-10)


def test_alone_in_its_batch_a_row_costs_what_the_inner_objective_says() -> None:
    queries, passages, table = example()
    rows = slice(0, 1)
    parts = (table.positives, table.candidates, table.answers, table.targets)
    alone = type(table)(*(part[rows] for part in parts), table.temperature)
    for inner in ("info_nce", "kl_distillation"):
        expected = objective(inner).loss(queries[rows], passages, alone).item()
        found = objective({"name": "same_tower", "inner": inner}).loss(queries[rows], passages, alone).item()
        assert found == pytest.approx(expected, rel=1e-12)
