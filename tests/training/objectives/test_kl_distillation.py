"""Distillation against the divergence written out, and what it becomes at its settings."""

import numpy as np
import pytest
import torch

from pipeline_tasks.training.objectives import objective
from tests.training.objectives.tables import OWN, arrays, example, softmax


def made(**parameters):
    return objective({"name": "kl_distillation", **parameters})


def gradients(loss, *of):
    return torch.autograd.grad(loss, of)


@pytest.mark.parametrize("teacher_temperature", [None, 0.7])
def test_equals_the_divergence_from_the_teacher(teacher_temperature) -> None:
    queries, passages, table = example()
    q, p = arrays(queries, passages)
    by_hand = 0.0
    for row in (0, 1, 2):
        teacher = softmax(table.targets[row, OWN[row]].numpy() / (teacher_temperature or table.temperature))
        student = softmax(p[OWN[row]] @ q[row] / table.temperature)
        by_hand += (teacher * np.log(teacher / student)).sum() / len(OWN)
    loss = made(hard=None, teacher_temperature=teacher_temperature).loss(queries, passages, table)
    assert loss.item() == pytest.approx(by_hand, rel=1e-10)


def test_adds_to_the_loss_on_the_labels() -> None:
    queries, passages, table = example()
    hard = objective("info_nce").loss(queries, passages, table).item()
    soft = made(hard=None).loss(queries, passages, table).item()
    for weight in (0.0, 1.0, 0.3):
        both = made(weight=weight).loss(queries, passages, table).item()
        assert both == pytest.approx(hard + weight * soft, rel=1e-12)


def test_costs_nothing_where_student_and_teacher_agree() -> None:
    queries, passages, table = example()
    cosines = (queries @ passages.T).detach()
    cosines[~table.candidates] = float("nan")
    table.targets.copy_(cosines)
    loss = made(hard=None).loss(queries, passages, table)
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert all(gradient.abs().max() < 1e-12 for gradient in gradients(loss, queries, passages))


def test_has_the_gradients_of_list_net_at_the_same_temperature() -> None:
    queries, passages, table = example()
    kl = made(hard=None, teacher_temperature=0.5).loss(queries, passages, table)
    list_net = objective({"name": "list_net", "alpha": 0.5}).loss(queries, passages, table)
    assert list_net.item() > kl.item()
    for one, other in zip(*(gradients(loss, queries, passages) for loss in (kl, list_net)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
