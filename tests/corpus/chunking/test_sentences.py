import pytest

from pipeline_tasks.corpus.chunking.structure import INTRODUCED, ITEM, PARAGRAPH, SECTION, SENTENCE, word_levels
from pipeline_tasks.corpus.chunking.words import WordTokenizer


def units(tokenizer, text: str) -> list[str]:
    """The text cut wherever a unit begins."""
    words = WordTokenizer(tokenizer, 255)(text)
    levels = word_levels(words)
    begins = [i for i in range(len(levels)) if levels[i] >= SENTENCE or levels[i] == INTRODUCED]
    ends = [*begins[1:], len(levels)]
    return [text[words.starts[a] : words.ends[b - 1]] for a, b in zip(begins, ends, strict=True)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith and Mrs. Jones met Gen. Lee.", "They left at 5 p.m.", "The water rose 3.5 m."],
        ["The U.S. Army helped, e.g. with boats, i.e. quickly.", "It came from the U.S.", "It left."],
        ["J. R. Tolkien lived there.", "See Fig. 3 and Sec. 2.1 of no. 7.", "No.", "He did not."],
        ['"Where is it?" he asked.', '"Gone!"', "Then silence…", "(It was late.)", "We left."],
        ["It cost $1.5 million in Jan. 2019.", "In 2019.", "The rest followed."],
        ["It takes 1 hr. 30 minutes.", "Visit www.ready.gov today.", "Version 2.0 is out?!", "Yes."],
        ["the flow is laminar .", "an experiment shows it ."],
        ["Smith et al. 2019 found it.", "Buy cans, boxes, etc. for a week.", "Keep them dry."],
        ["1. Turn off the gas.", "2. Leave the house.", "3. Call."],
        ["Step 1. Turn off the gas.", "Step 2. Leave.", "It took step 3.", "Then call."],
        ["बाढ़ आ गई है।", "घर छोड़ दो।"],
        ["هل جاء الفيضان؟", "نعم."],
        ["Вода поднялась.", "Мы ушли."],
        ["水が来た。", "「逃げろ！」", "と彼は言った。"],
    ],
    ids=lambda sentences: sentences[0][:20],
)
def test_sentences(tokenizer, sentences):
    separator = "" if sentences[0][-1] == "。" else " "
    assert units(tokenizer, separator.join(sentences)) == sentences


def test_lines_that_only_wrap_are_no_units(tokenizer):
    assert units(tokenizer, "The river rises over\nthe road. The\nRed Cross came\n\nand left.") == [
        "The river rises over\nthe road.",
        "The\nRed Cross came\n\nand left.",
    ]


def test_levels_of_headings_items_and_paragraphs(tokenizer):
    text = (
        "A plan\n\nMost homes flood. Be ready.\n\nWhat to take\n\n- water\n- a radio\n\nTake also:\n1. a map\n\n"
        "The end of it is this. \u2022 one \u2022 two"
    )
    words = WordTokenizer(tokenizer, 255)(text)
    levels = dict(zip(words.words, word_levels(words).tolist(), strict=True))
    wanted = {"A": SECTION, "Most": INTRODUCED, "Be": SENTENCE, "What": SECTION, "Take": PARAGRAPH, "1.": INTRODUCED}
    assert {word: levels[word] for word in wanted} == wanted
    assert levels["The"] == PARAGRAPH and levels["\u2022"] == ITEM
    at = [i for i, word in enumerate(words.words) if word == "-"]
    assert word_levels(words)[at].tolist() == [INTRODUCED, ITEM]


def test_a_table_of_short_lines_is_not_all_headings(tokenizer):
    lessons = [f"Lesson {i}" for i in range(5)]
    text = "\n\n".join([*lessons, "This is what follows. It is a text."])
    words = WordTokenizer(tokenizer, 255)(text)
    assert word_levels(words).tolist().count(SECTION) <= 3
