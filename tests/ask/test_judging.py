"""A judgement quotes its evidence, and a pool comes back as it was graded."""

from __future__ import annotations

import pytest

from pipeline_tasks.ask.judging import grades, is_known, judged
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.questions import Judgement
from tests.ask.conftest import TEXTS


def test_a_judgement_is_quoted_on_one_line_and_found_again_in_other_chunks(corpus):
    quote = "Flood water\n\nA road under flood  water may be gone."
    question = judged(corpus, " is it\nsafe? ", "qa", "p-flood", 2, quote)
    assert (question.query, question.document) == ("is it safe?", "https://example.org/flood.pdf")
    evidence = "Flood water A road under flood water may be gone."
    assert question.judgements == (Judgement(grade=2, evidence=evidence),)
    chunks = {"other": "Take the bridge to the shelter.", "whole": f"Before.\n{TEXTS['flood']}"}
    assert grades([question], "is it safe?", "qa", chunks).keys() == {"whole"}
    spaced = question.model_copy(update={"query": "is  it safe? "})
    assert grades([spaced], "is it safe?", "qa", chunks).keys() == {"whole"}
    assert grades([question], "is it safe?", "sts", chunks) == {}


def test_a_passage_that_has_its_grade_is_not_graded_anew(corpus):
    """So that reading an unchanged pool takes away no quote that another passage has as well."""
    said = [judged(corpus, "safe?", "qa", "p-flood", *one) for one in ((2, "A road under flood"), (1, "Turn around"))]
    assert is_known(said, said[0], TEXTS["flood"]) and not is_known(said, said[1], TEXTS["flood"])
    assert not is_known([], said[0], TEXTS["flood"])


@pytest.mark.parametrize(
    ("passage", "grade", "quote", "said"),
    [
        ("p-flood", 2, "A road is fine.", "does not hold"),
        ("p-flood", 2, " ", "does not hold"),
        ("p-none", 2, "A", "no passage"),
        ("p-flood", 3, "Turn around", "grade 3"),
    ],
)
def test_what_is_no_judgement_is_refused(corpus, passage, grade, quote, said):
    with pytest.raises(InputError, match=said):
        judged(corpus, "is it safe?", "qa", passage, grade, quote)
