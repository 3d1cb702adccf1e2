"""InfoNCE against the formula written out, and the masks of its candidates."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from pipeline_tasks.training.backbone import load
from pipeline_tasks.training.examples import TokenSet, TrainingSet, tokenize_set
from pipeline_tasks.training.losses import info_nce, make_group


def tokenized(tiny_bert, rows: TrainingSet) -> TokenSet:
    tokenizer = load(tiny_bert).tokenizer
    return tokenize_set(rows, tokenizer, max_query_length=16, max_passage_length=32)


def unit(*shape: int) -> torch.Tensor:
    return functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(1)), dim=-1)


def test_equals_equation_two_on_a_square_of_pairs() -> None:
    vectors = unit(8, 16)
    queries, passages = vectors[:4], vectors[4:]
    loss = info_nce(queries, passages, torch.arange(4), torch.ones(4, 4, dtype=torch.bool), 0.01)
    expected = functional.cross_entropy(queries @ passages.T / 0.01, torch.arange(4))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_equals_equation_four_with_ragged_negatives() -> None:
    vectors = unit(7, 16)
    queries, passages = vectors[:2], vectors[2:]
    candidates = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]], dtype=torch.bool)
    by_hand = 0.0
    for query, positive, negatives in ((0, 0, (2, 3)), (1, 1, (4,))):
        scores = [math.exp(float(queries[query] @ passages[p]) / 0.1) for p in (positive, *negatives)]
        by_hand -= math.log(scores[0] / sum(scores)) / 2
    loss = info_nce(queries, passages, torch.tensor([0, 1]), candidates, 0.1)
    assert loss.item() == pytest.approx(by_hand, rel=1e-5)


def test_finite_at_the_extremes() -> None:
    query = unit(1, 8)
    passages = torch.cat([-query, query]).requires_grad_()
    loss = info_nce(query, passages, torch.tensor([0]), torch.ones(1, 2, dtype=torch.bool), 0.01)
    loss.backward()
    assert loss.item() == pytest.approx(200.0, rel=1e-4)
    assert torch.isfinite(passages.grad).all()


def test_a_row_without_negatives_costs_nothing() -> None:
    assert info_nce(unit(1, 8), unit(1, 8), torch.tensor([0]), torch.tensor([[True]]), 0.01).item() == 0.0


def test_duplicates_and_known_answers_are_never_negatives(tiny_bert) -> None:
    rows = TrainingSet(
        queries=["ta", "ta", "tb", "tc"],
        positive_ids=["a1", "a2", "b", "a1-copy"],
        passages={"a1": "ta wa", "a2": "ta wb", "b": "tb", "a1-copy": "ta wa"},
    )
    data = tokenized(tiny_bert, rows)
    group = make_group(np.arange(4), data, in_batch=True)
    assert len(data.passages) == 3
    assert group.positives.tolist() == [0, 1, 2, 0]
    assert group.candidates.tolist() == [
        [True, False, True],
        [False, True, True],
        [True, True, True],
        [True, True, True],
    ]


def test_own_negatives_only(tiny_bert) -> None:
    rows = TrainingSet(
        queries=["ta", "tb"],
        positive_ids=["a", "b"],
        passages={"a": "ta", "b": "tb", "c": "tc", "d": "td"},
        negative_ids=[["c", "a", "d"], []],
    )
    data = tokenized(tiny_bert, rows)
    group = make_group(np.arange(2), data, in_batch=False)
    by_row = [{int(group.passages[c]) for c in np.flatnonzero(row)} for row in group.candidates]
    a, b = data.positive_of
    c, _, d = data.negatives_of[0]
    assert by_row == [{a, c, d}, {b}]


def test_own_and_in_batch_negatives_together(tiny_bert, rows) -> None:
    data = tokenized(tiny_bert, rows)
    group = make_group(np.arange(5), data, in_batch=True)
    assert group.candidates.all()
    assert len(group.passages) > 5
