"""The development score is that of the metrics module, and a collapsed encoder scores nothing."""

import numpy as np
import pytest

from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.training.validation import ndcg_of_single_positive, ranks_of_positives


def test_agrees_with_the_general_ndcg() -> None:
    rng = np.random.default_rng(0)
    queries, passages = rng.normal(size=(50, 8)), rng.normal(size=(40, 8))
    positives = rng.integers(40, size=50)
    order = np.argsort(-(queries @ passages.T), axis=1)
    judged = [{str(positive): 1} for positive in positives]
    expected = score([list(map(str, row)) for row in order], judged, ["ndcg@10"])["ndcg@10"].mean()
    ranks = ranks_of_positives(queries, passages, positives, block=7)
    assert ndcg_of_single_positive(ranks) == pytest.approx(expected)
    assert (np.take_along_axis(order, ranks[:, None] - 1, axis=1)[:, 0] == positives).all()


def test_equal_vectors_rank_last() -> None:
    ranks = ranks_of_positives(np.ones((3, 4)), np.ones((20, 4)), np.array([0, 5, 19]))
    assert ranks.tolist() == [20, 20, 20]
    assert ndcg_of_single_positive(ranks) == 0.0
