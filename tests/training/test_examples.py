"""Rows are checked before they are trained on."""

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.examples import DevSet, TrainingSet, tokenize_set

LENGTHS = {"max_query_length": 4, "max_passage_length": 6}


def test_texts_are_cut_at_their_own_lengths(tiny_bert) -> None:
    rows = TrainingSet(["ta wb wc wd we"], ["p"], {"p": "ta wb wc wd we wf wg", "unused": "tb"})
    data = tokenize_set(rows, load(tiny_bert).tokens, **LENGTHS)
    assert [len(data.queries[0]), len(data.passages[0])] == [4, 6]
    assert len(data.passages) == 1


def test_development_passages_all_take_part(tiny_bert) -> None:
    data = tokenize_set(DevSet(["ta"], ["p"], {"p": "ta", "q": "tb"}), load(tiny_bert).tokens, **LENGTHS)
    assert len(data.passages) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TrainingSet(["ta"], ["nowhere"], {"p": "ta"}), "'nowhere'"),
        (TrainingSet(["ta"], ["p"], {"p": "ta"}, [["lost"]]), "'lost'"),
        (TrainingSet(["ta", "tb"], ["p"], {"p": "ta"}), "2 queries, 1 positives"),
        (DevSet(["ta"], ["p"]), "'p'"),
        (
            TrainingSet(["ta"], ["p"], {"p": "ta", "n": "tb"}, [["n"]], (), [[0.9]]),
            "1 teacher's scores for 'ta' with 1",
        ),
        (TrainingSet(["ta", "tb"], ["p", "p"], {"p": "ta"}, (), (), [[0.9]]), "1 of a teacher's scores"),
    ],
)
def test_bad_rows_are_named(tiny_bert, rows, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tokenize_set(rows, load(tiny_bert).tokens, **LENGTHS)
