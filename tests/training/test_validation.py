"""The development score is that of the metrics module, and a collapsed encoder scores nothing."""

import tracemalloc

import numpy as np
import pytest

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.validation import mean_ndcg, ranks_of_positives, validate


def test_agrees_with_the_general_ndcg(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    queries, passages = rng.normal(size=(50, 8)), rng.normal(size=(40, 8))
    positives = rng.integers(40, size=50)
    order = np.argsort(-(queries @ passages.T), axis=1)
    judged = [{str(positive): 1} for positive in positives]
    expected = score([list(map(str, row)) for row in order], judged, ["ndcg@10"])["ndcg@10"].mean()
    monkeypatch.setattr("pipeline_tasks.training.validation._QUERIES", 7)
    ranks = ranks_of_positives(queries, passages, positives)
    assert mean_ndcg(ranks, np.ones(50), np.arange(50)) == pytest.approx(expected)
    assert (np.take_along_axis(order, ranks[:, None] - 1, axis=1)[:, 0] == positives).all()


def test_many_passages_are_scored_for_few_queries_at_once_and_ranks_are_the_same(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    queries, passages = rng.integers(-4, 5, (600, 8)).astype(float), rng.integers(-4, 5, (2_000, 8)).astype(float)
    positives, answers = rng.integers(2_000, size=600), list(rng.integers(2_000, size=(600, 3)))

    def ranked() -> tuple[list[int], int]:
        tracemalloc.start()
        ranks = ranks_of_positives(queries, passages, positives, answers)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return ranks.tolist(), peak

    ranks, peak = ranked()
    for scores in (20_000, 1):
        monkeypatch.setattr("pipeline_tasks.training.validation._SCORES", scores)
        fewer, low = ranked()
        assert fewer == ranks and 20 * low < peak


def test_other_answers_of_a_query_are_left_out_of_its_ranking(monkeypatch) -> None:
    queries, passages = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0]])
    known = [np.array([0, 2]), np.array([2, 3])]
    assert ranks_of_positives(queries, passages, np.array([2, 2])).tolist() == [3, 2]
    for block in (1, 2):
        monkeypatch.setattr("pipeline_tasks.training.validation._QUERIES", block)
        assert ranks_of_positives(queries, passages, np.array([2, 2]), known).tolist() == [2, 1]
    assert ranks_of_positives(np.ones((1, 2)), np.ones((3, 2)), np.array([0]), [np.array([0, 1])]).tolist() == [2]


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


def test_a_text_that_stands_twice_in_a_set_counts_once(tiny_bert, tmp_path) -> None:
    encoder = load(tiny_bert)

    def scored(name: str, *rows: tuple[str, str, float]) -> float:
        queries, positives, grades = zip(*rows, strict=True)
        others = [f"w{one} w{other}" for one in "abc" for other in "defg"]
        dev = Examples.of(queries, positives, targets=[[grade] for grade in grades], others=others)
        data = tokenized(dev, encoder.tokens, tmp_path / name, max_query_length=16, max_passage_length=16)
        return validate(encoder, data, 4096, autocast=False)

    rows = [("ta wa", "ta wa", 2.0), ("ta wa", "tb wb", 1.0), ("tc", "td wd", 1.0)]
    once = scored("once", *rows)
    assert 0 < once <= 1
    assert scored("twice", *rows, ("ta wa", "ta wa", 1.0), rows[1], rows[2]) == once


def test_every_intent_counts_alike_however_many_queries_it_has() -> None:
    """By hand: three found first, one found third (1 / log2(4)), one not found; by query it would be 0.7."""
    ranks, grades, intents = np.array([1, 3, 1, 99, 1]), np.ones(5), np.array([4, 7, 4, 7, 4])
    assert mean_ndcg(ranks, grades, np.arange(5), intents) == pytest.approx((1 + 0.5 / 2) / 2)
    assert mean_ndcg(ranks, grades, np.arange(5)) == pytest.approx((3 + 0.5) / 5)
    assert mean_ndcg(ranks, grades, np.arange(5), np.zeros(5)) == mean_ndcg(ranks, grades, np.arange(5))


@pytest.mark.parametrize("graded", [False, True])
def test_development_rows_score_as_the_mean_of_their_intents(tiny_bert, tmp_path, graded) -> None:
    encoder = load(tiny_bert)
    others = [f"w{one} w{other}" for one in "abc" for other in "defg"]
    asked = [(f"t{c} wa", f"t{c} wa wb", "qa", 1.0) for c in "abcde"]
    asked += [("ta wa", others[0], "nli", 3.0), ("tf", others[1], "nli", 1.0)]

    def scored(rows: list[tuple[str, str, str, float]], named: bool) -> float:
        queries, positives, intents, grades = zip(*rows, strict=True)
        every = [*others, *(positive for _, positive, _, _ in asked)]
        known = [[of for same, of, _, _ in asked if same == query] for query in queries]
        more = {"targets": [[grade] for grade in grades]} if graded else {"answers": known}
        dev = Examples.of(queries, positives, sources=intents if named else None, others=every, **more)
        folder = tmp_path / f"{len(rows)}-{intents[0]}-{named}"
        data = tokenized(dev, encoder.tokens, folder, max_query_length=16, max_passage_length=16)
        return validate(encoder, data, 4096, autocast=False)

    alone = [scored([row for row in asked if row[2] == intent], named=False) for intent in ("qa", "nli")]
    assert abs(alone[0] - alone[1]) > 0.1
    for order in (asked, asked[::-1]):
        assert scored(order, named=True) == pytest.approx(np.mean(alone), abs=1e-6)
    assert scored(asked[:5], named=True) == alone[0]


def test_scores_that_are_no_numbers_rank_last() -> None:
    queries = np.array([[np.nan, 0.0], [1.0, 0.0]])
    ranks = ranks_of_positives(queries, np.eye(2), np.array([0, 0]))
    assert ranks.tolist() == [2, 1]
