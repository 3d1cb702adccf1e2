"""The development score is that of the metrics module, and a collapsed encoder scores nothing."""

import numpy as np
import pytest

from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.training.validation import mean_ndcg, ranks_of_positives


def test_agrees_with_the_general_ndcg() -> None:
    rng = np.random.default_rng(0)
    queries, passages = rng.normal(size=(50, 8)), rng.normal(size=(40, 8))
    positives = rng.integers(40, size=50)
    order = np.argsort(-(queries @ passages.T), axis=1)
    judged = [{str(positive): 1} for positive in positives]
    expected = score([list(map(str, row)) for row in order], judged, ["ndcg@10"])["ndcg@10"].mean()
    ranks = ranks_of_positives(queries, passages, positives, block=7)
    assert mean_ndcg(ranks, np.ones(50), np.arange(50)) == pytest.approx(expected)
    assert (np.take_along_axis(order, ranks[:, None] - 1, axis=1)[:, 0] == positives).all()


def test_equal_vectors_rank_last() -> None:
    ranks = ranks_of_positives(np.ones((3, 4)), np.ones((20, 4)), np.array([0, 5, 19]))
    assert ranks.tolist() == [20, 20, 20]
    assert mean_ndcg(ranks, np.ones(3), np.arange(3)) == 0.0


def test_graded_judgements_count_as_trec_eval_counts_them() -> None:
    rng = np.random.default_rng(1)
    queries, passages = rng.normal(size=(20, 8)), rng.normal(size=(40, 8))
    judged = [
        {int(p): int(g) for p, g in zip(rng.choice(40, n, replace=False), rng.integers(1, 4, n), strict=True)}
        for n in rng.integers(1, 14, 20)
    ]
    rows = [(query, passage, grade) for query, grades in enumerate(judged) for passage, grade in grades.items()]
    query_of, positives, grades = (np.array(column) for column in zip(*rows, strict=True))
    ranks = ranks_of_positives(queries[query_of], passages, positives)
    order = np.argsort(-(queries @ passages.T), axis=1)
    expected = score(
        [list(map(str, row)) for row in order],
        [{str(passage): grade for passage, grade in grades.items()} for grades in judged],
        ["ndcg@10"],
    )
    assert mean_ndcg(ranks, grades.astype(float), query_of) == pytest.approx(expected["ndcg@10"].mean())
