"""Which passages a row is scored against, and what a teacher made of them."""

import numpy as np
import pytest

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.candidates import make_group
from pipeline_tasks.training.examples import TokenSet, TrainingSet, tokenize_set


def tokenized(tiny_bert, rows: TrainingSet) -> TokenSet:
    tokenizer = load(tiny_bert).tokens
    return tokenize_set(rows, tokenizer, max_query_length=16, max_passage_length=32)


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
    assert group.answers.tolist() == [
        [True, True, False],
        [True, True, False],
        [False, False, True],
        [True, False, False],
    ]
    assert np.isnan(group.targets).all()


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


@pytest.mark.parametrize("in_batch", [True, False])
def test_a_teachers_scores_lie_at_the_passages_they_are_of(tiny_bert, in_batch: bool) -> None:
    rows = TrainingSet(
        queries=["ta", "tb"],
        positive_ids=["a", "b"],
        passages={"a": "ta", "b": "tb", "c": "tc", "d": "td"},
        negative_ids=[["d", "c"], ["c"]],
        teacher_scores=[[0.9, 0.4, 0.3], []],
    )
    data = tokenized(tiny_bert, rows)
    group = make_group(np.arange(2), data, in_batch)
    a, b, c, d = (
        np.flatnonzero(group.passages == n)[0]
        for n in (*data.positive_of, data.negatives_of[0][1], data.negatives_of[0][0])
    )
    assert group.targets[0, [a, d, c]].tolist() == pytest.approx([0.9, 0.4, 0.3])
    assert np.isnan(group.targets[0, b]) and np.isnan(group.targets[1]).all()
