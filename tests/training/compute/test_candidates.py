"""Which passages a row is scored against, and what a teacher made of them."""

import numpy as np
import pytest

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.compute.candidates import make_group
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import Rows, tokenized


@pytest.fixture
def numbered(tiny_bert, tmp_path):
    """Makes rows of examples."""

    def make(examples: Examples) -> Rows:
        tokenizer = load(tiny_bert).tokens
        return tokenized(examples, tokenizer, tmp_path, max_query_length=16, max_passage_length=32)

    return make


def test_duplicates_and_known_answers_are_never_negatives(numbered) -> None:
    rows = Examples.of(["ta", "ta", "tb", "tc"], ["ta wa", "ta wb", "tb", "ta wa"])
    data = numbered(rows)
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


@pytest.mark.parametrize("in_batch", [True, False])
def test_what_a_row_says_is_no_wrong_answer_is_no_negative_of_its_query(numbered, in_batch: bool) -> None:
    answers = [["ta"], ["tb", "of no row"], ["tc"]]
    named = [["wd"], ["tb", "wd"], ["tb", "wd"]]
    data = numbered(Examples.of(["ta", "tb", "tc"], ["tb", "wb", "wc"], named, answers=answers))
    group = make_group(np.arange(3), data, in_batch)
    of_tb = group.passages.tolist().index(data.positive_of[0])
    assert group.candidates[:, of_tb].tolist() == [True, False, True]
    assert group.answers[:, of_tb].tolist() == [True, True, False]
    assert [len(data.answers[query]) for query in data.query_of] == [1, 2, 1]


def test_own_negatives_only(numbered) -> None:
    rows = Examples.of(["ta", "tb"], ["ta", "tb"], [["tc", "ta", "td"], []])
    data = numbered(rows)
    group = make_group(np.arange(2), data, in_batch=False)
    by_row = [{int(group.passages[c]) for c in np.flatnonzero(row)} for row in group.candidates]
    a, b = data.positive_of
    c, _, d = data.negatives_of[0]
    assert by_row == [{a, c, d}, {b}]


def test_own_and_in_batch_negatives_together(numbered, rows) -> None:
    data = numbered(rows)
    group = make_group(np.arange(5), data, in_batch=True)
    assert group.candidates.all()
    assert len(group.passages) > 5


@pytest.mark.parametrize("in_batch", [True, False])
def test_a_teachers_scores_lie_at_the_passages_they_are_of(numbered, in_batch: bool) -> None:
    rows = Examples.of(["ta", "tb"], ["ta", "tb"], [["td", "tc"], ["tc"]], targets=[[0.9, 0.4, 0.3], []])
    data = numbered(rows)
    group = make_group(np.arange(2), data, in_batch)
    a, b, c, d = (
        np.flatnonzero(group.passages == n)[0]
        for n in (*data.positive_of, data.negatives_of[0][1], data.negatives_of[0][0])
    )
    assert group.targets[0, [a, d, c]].tolist() == pytest.approx([0.9, 0.4, 0.3])
    assert np.isnan(group.targets[0, b]) and np.isnan(group.targets[1]).all()


def test_a_row_is_told_apart_from_its_contrasts_and_from_what_others_ask(numbered) -> None:
    rows = Examples.of(
        ["ta wa", "tb wa", "ta wc"],
        ["ta", "tb", "tc"],
        other_instructions=[["tb wa"], ["ta wa", "td wa"], []],
        other_queries=[["ta wb"], [], []],
    )
    data = numbered(rows)
    group = make_group(np.arange(3), data, in_batch=True, contrasted=True)
    assert len(group.contrasts) == 2 and not set(group.contrasts) & set(group.queries)
    texts = [*group.queries, *group.contrasts]
    first, second, third = ([texts[c] for c in np.flatnonzero(row)] for row in group.other_instructions)
    assert first == [data.query_of[1]] and third == []
    assert second == [data.query_of[0], data.contrasts_of[1][1]]
    by_row = [{texts[c] for c in np.flatnonzero(row)} for row in group.other_queries]
    everything = set(texts)
    assert by_row[0] == everything - {data.query_of[0], data.contrasts_of[1][1]}
    assert by_row[1] == everything - {data.query_of[1], data.contrasts_of[0][1]}
    assert by_row[2] == set(group.queries) - {data.query_of[2]}
    assert make_group(np.arange(3), data, in_batch=True).contrasts.size == 0, "nobody asks for them"


def test_a_query_that_the_positive_answers_is_no_contrast(numbered) -> None:
    told_apart = [["tb", "td"], [], []]
    data = numbered(Examples.of(["ta", "tb", "tc"], ["wa", "wa", "wb"], other_instructions=told_apart))
    group = make_group(np.arange(3), data, in_batch=True, contrasted=True)
    assert group.other_queries[:, :3].tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert group.other_instructions.tolist() == [[False, False, False, True], [False] * 4, [False] * 4]
