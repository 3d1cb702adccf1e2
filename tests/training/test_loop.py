"""Which checkpoint a run gives back."""

import numpy as np
import pytest

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.loop import Task, run
from pipeline_tasks.training.params import TrainParams


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.5, 0.7, float(np.nextafter(0.7, 0)), 0.3], 2),
        ([0.5, 0.7, 0.7 - 8e-13, 0.7 - 16e-13], 2),
        ([0.5, 0.7, 0.7 - 1e-9, 0.3], 1),
        ([0.7, 0.7 - 1e-9, 0.3, 0.3], 0),
    ],
)
def test_scores_that_differ_by_rounding_alone_are_equal_and_of_these_the_later_wins(tiny_bert, tmp_path, scores, best):
    """However many come one after another: none is far below the highest."""
    encoder = load(tiny_bert)

    def accumulate(rows: np.ndarray, step: int) -> float:
        loss = sum(weights.square().sum() for weights in encoder.model.parameters() if weights.requires_grad)
        loss.backward()
        return loss.item()

    task = Task([np.array([0])] * 3, accumulate, scores.__getitem__, "", len)
    params = TrainParams(size="22m", evals_per_epoch=3, batch_size=1, device="cpu")
    result = run(encoder, task, params, tmp_path, lambda *_: None, threads=1)
    assert result.scores == tuple(enumerate(scores))
    assert (result.best_step, result.best_score) == (best, max(scores))
