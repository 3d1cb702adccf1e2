"""What a step does follows from its number."""

import pytest

from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.schedule import evaluation_steps, learning_rate


def test_rate_climbs_to_the_peak_and_falls_towards_zero() -> None:
    config = TrainParams(learning_rate=1.0, warmup_ratio=0.2)
    rates = [learning_rate(step, 10, config) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_no_warmup_starts_at_the_peak() -> None:
    assert learning_rate(0, 4, TrainParams(learning_rate=1.0, warmup_ratio=0)) == 1.0


@pytest.mark.parametrize(
    ("evals", "expected"),
    [(1, {5, 10}), (2, {3, 5, 8, 10}), (50, set(range(1, 11)))],
)
def test_every_epoch_ends_with_an_evaluation(evals: int, expected: set[int]) -> None:
    assert evaluation_steps(10, TrainParams(epochs=2, evals_per_epoch=evals)) == expected
