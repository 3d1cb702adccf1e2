import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_tasks.synthesis.checking.parse import Pair, Rejected, parse_fields, parse_need, parse_pair
from pipeline_tasks.synthesis.prompting.prompts import Prompt

NEED = Prompt(
    text="…",
    lead="",
    labels=("Wants to know:",),
    query_first=True,
    stop=("\n",),
    max_tokens=48,
    max_chars=120,
    passage="The siren at the dam sounds for three minutes before the gates open, so anglers must leave the river bed.",
    seen=("how long the ferry waits for trucks in a storm warning",),
    seed=1,
)
PAIR = dataclasses.replace(NEED, labels=("Question:", "Answer:"), max_chars=300)
BACKWARDS = dataclasses.replace(PAIR, labels=("Answer:", "Question:"), query_first=False)
QUESTION = "How long does the siren at the dam sound?"
ANSWER = "The siren sounds for three minutes before the gates of the dam open."


def test_a_need_is_one_clean_line():
    assert (
        parse_need(" how long the dam’s siren\x00\x1b sounds\u202e \n\nPassage: x", NEED)
        == "how long the dam’s siren sounds"
    )


def test_labels_and_decoration_are_not_part_of_the_need():
    assert (
        parse_need('**Wants to know:** "when the siren of the dam sounds"', NEED) == "when the siren of the dam sounds"
    )


def test_the_lead_is_put_back_once():
    led = dataclasses.replace(NEED, lead="how long")
    assert parse_need(" the siren of the dam sounds", led) == "how long the siren of the dam sounds"
    assert parse_need("How long the siren of the dam sounds", led) == "How long the siren of the dam sounds"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty_answer"),
        (" \n\x00\u200b", "empty_answer"),
        ("the siren", "too_short"),
        (
            "the siren of the dam sounds before its gates open and "
            + "anglers near rivers hear what it means today " * 3,
            "too_long",
        ),
        ("the siren of the dam sounds the siren of the dam sounds", "repetitive"),
        ("siren dam siren dam siren dam siren dam", "repetitive"),
        ("how long the ferry waits for trucks in a storm at the dam", "copied_example"),
        ("how many people like to play football", "off_passage"),
        ("whether the siren of the dam sounds for 17 minutes", "new_number"),
        ("the siren of the dam <script>alert(1)</script>", "garbled"),
        ("the siren of the dam <|im_end|> sounds before gates open", "garbled"),
        ("the siren at the dam: https://evil.example/x", "garbled"),
        ("how loud the siren of the dam is ((((((((((((((((((((((((((((((((((((((((", "garbled"),
    ],
)
def test_a_useless_need_has_its_reason(answer, reason):
    assert parse_need(answer, NEED) == Rejected(reason)


def test_a_need_that_was_cut_off_is_refused():
    assert parse_need("how long the siren of the dam sounds before", NEED, cut_off=True) == Rejected("too_long")


def test_a_pair_in_either_order():
    assert parse_pair(f" {QUESTION}\nAnswer: {ANSWER}\n", PAIR) == Pair(QUESTION, ANSWER)
    assert parse_pair(f" {ANSWER}\nQuestion: {QUESTION}", BACKWARDS) == Pair(QUESTION, ANSWER)
    assert parse_pair(f"Question: {QUESTION}\n\nAnswer: {ANSWER}", PAIR) == Pair(QUESTION, ANSWER)


def test_what_follows_the_pair_is_ignored():
    more = f" {QUESTION}\nAnswer: {ANSWER}\nQuestion: Who cares?\nPassage: The next one"
    assert parse_pair(more, PAIR) == Pair(QUESTION, ANSWER)


def test_a_cut_off_positive_loses_its_unfinished_sentence():
    assert parse_pair(f"{QUESTION}\nAnswer: {ANSWER} Anglers must", PAIR, cut_off=True) == Pair(QUESTION, ANSWER)
    assert parse_pair(f"{QUESTION}\nAnswer: The siren sounds at", PAIR, cut_off=True) == Rejected("too_long")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty_answer"),
        (QUESTION, "unparsable"),
        (f"{QUESTION}\nAnswer:", "empty_answer"),
        (f"\nAnswer: {ANSWER}", "empty_answer"),
        (f"{ANSWER}\nAnswer: {ANSWER.upper()}", "query_is_passage"),
        (f"{QUESTION}\nAnswer: Nobody has ever heard about such a thing.", "off_passage"),
        (
            f"{QUESTION}\nAnswer: {ANSWER} {'Anglers at river beds leave quickly whenever gates move. ' * 1}"
            + "x" * 300,
            "too_long",
        ),
    ],
)
def test_a_useless_pair_has_its_reason(answer, reason):
    assert parse_pair(answer, PAIR) == Rejected(reason)


@settings(max_examples=200)
@given(
    st.text()
    | st.lists(st.sampled_from(["Answer:", "Question:", "\n", "siren dam", "<", "\x00", '"', "Passage:"])).map(" ".join)
)
def test_no_content_raises(answer):
    for prompt in (PAIR, BACKWARDS):
        pair = parse_pair(answer, prompt, cut_off=len(answer) % 2 == 0)
        assert isinstance(pair, Rejected) or (pair.query and pair.positive and pair.query != pair.positive)
    need = parse_need(answer, NEED)
    assert isinstance(need, Rejected) or need.strip()
    assert parse_fields(answer, "need") == Rejected("empty_answer") or isinstance(
        parse_fields(answer, "need"), Rejected
    )


def test_an_escape_for_half_of_a_character_or_for_none_leaves_no_trace():
    answer = r'{"need": "high water \ud83d or \u0000 fire \ud83d\ude00"}'
    assert parse_fields(answer, "need") == {"need": "high water or fire \U0001f600"}


def test_joiners_are_a_part_of_words_and_emoji():
    need = "می\u200cخواهم \U0001f469\u200d\U0001f692 را ببینم"
    assert parse_fields(json.dumps({"need": f"{need}\u200b"}), "need") == {"need": need}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            r'{"need": "\"flash flood watch\" vs \"flash flood warning\""}',
            '"flash flood watch" vs "flash flood warning"',
        ),
        (r'{"need": "\"No mobile home is safe\", it says."}', '"No mobile home is safe", it says.'),
        (r'{"need": "**\"where is it safe?\"**"}', "where is it safe?"),
        ('{"need": "where is\nit safe?"}', "where is it safe?"),
        (r'{"need": "\""}', '"'),
    ],
)
def test_a_text_keeps_its_own_quotation_marks(said, meant):
    assert parse_fields(said, "need") == {"need": meant}
