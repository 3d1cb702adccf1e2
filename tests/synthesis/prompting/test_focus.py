from pipeline_tasks.synthesis.prompting.focus import focus_of, subject_of

PASSAGE = (
    "Stay calm. Breaking waves of only three feet can destroy a wood-frame wall. "
    "The surge forecast does not include them, although they cause 90 percent of the structural damage. "
    "People should know this well before they are told to go."
)


def test_the_focus_is_a_sentence_of_the_passage():
    drawn = {focus_of(PASSAGE, str(i)) for i in range(40)}
    assert len(drawn) == 3
    assert all(sentence in PASSAGE and sentence.endswith(".") for sentence in drawn)


def test_a_passage_without_sentences_is_its_own_focus():
    assert focus_of("wind 40 mph", "a") == "wind 40 mph"
    assert focus_of("", "a") == ""


def test_the_subject_is_named_in_the_sentence():
    assert subject_of("Breaking waves of only three feet can destroy a wood-frame wall.", "a") == "a wood-frame wall"
    assert subject_of("The surge forecast does not include them.", "a") == "the surge forecast"
    assert subject_of("Each resident is told by the county clerk.", "a") in ("each resident", "the county clerk")


def test_a_verb_is_not_taken_for_a_part_of_the_subject():
    assert subject_of("A tornado touched down.", "a") == "a tornado"


def test_no_subject_is_no_error():
    assert subject_of("Run!", "a") == ""
    assert subject_of("", "a") == ""
