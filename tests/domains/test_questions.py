"""The judged questions of the sample documents measure what they say they measure."""

from __future__ import annotations

import statistics
from codecs import BOM_UTF8
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.demo.blocks import parse_blocks
from pipeline_tasks.demo.sample import load_documents
from pipeline_tasks.domains import folder_of
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.domains.questions import Judgement, Question, add_judgements, load_questions, read_questions
from pipeline_tasks.domains.quotes import Quotes
from pipeline_tasks.synthesis.checking.wording import content_of

DOMAIN, OTHER = folder_of("disaster"), folder_of("food_safety")


@pytest.fixture(params=[DOMAIN, OTHER], ids=lambda domain: domain.name)
def domain(request: pytest.FixtureRequest) -> Path:
    return request.param


def overlap(question: Question) -> float:
    """Share of a query's content words that its best evidence has, too."""
    asked = content_of(question.query)
    answers = [content_of(j.evidence) for j in question.judgements if j.grade == 2]
    return max((len(asked & answer) / max(1, len(asked)) for answer in answers), default=0.0)


def test_there_are_some_of_each_intent_and_no_query_comes_twice(domain: Path) -> None:
    questions = load_questions(domain)
    counts = Counter(question.intent for question in questions)
    assert counts.keys() == load_intents(domain).keys(), counts
    assert min(counts.values()) >= (30 if domain == DOMAIN else 3), counts
    assert len({question.query.lower() for question in questions}) == len(questions)


def test_evidence_is_quoted_from_its_document_and_every_question_is_answered(domain: Path) -> None:
    texts = {d.name: [block.text for block in parse_blocks(d.body)] for d in load_documents(domain / "sample")}
    for question in load_questions(domain):
        assert any(judgement.grade == 2 for judgement in question.judgements), question
        for judgement in question.judgements:
            assert any(judgement.evidence in text for text in texts[question.document]), judgement.evidence


def test_a_quote_stands_in_its_own_document_and_holds_no_other_one_out(domain: Path) -> None:
    evidence = [(j.evidence, question.document) for question in load_questions(domain) for j in question.judgements]
    quotes = Quotes(text for text, _ in evidence)
    for document in load_documents(domain / "sample"):
        found = {evidence[number][1] for number in quotes.found_in(document.body)}
        assert found == {document.name} & {name for _, name in evidence}, document.name


def test_questions_are_asked_in_other_words_than_their_answers(domain: Path) -> None:
    shares = [overlap(question) for question in load_questions(domain)]
    assert max(shares) <= 0.5 and statistics.mean(shares) <= 0.25


def test_nothing_was_written_for_training_about_a_judged_document(domain: Path) -> None:
    written = {file.stem for file in (domain / "recordings").glob("*.jsonl")}
    assert not written & {question.document for question in load_questions(domain)}


def test_a_bad_line_is_named_and_a_domain_may_have_none(tmp_path: Path) -> None:
    assert load_questions(tmp_path) == []
    (tmp_path / "questions.jsonl").write_text('{"query": "why", "intent": "qa", "document": "a", "judgements": []}\n')
    with pytest.raises(InputError, match=r"questions\.jsonl, line 1: judgements has too few items; write more"):
        load_questions(tmp_path)
    (tmp_path / "questions.jsonl").write_bytes(b'{"query": "\xff"}\n')
    with pytest.raises(InputError, match=r"questions\.jsonl is no UTF-8 text .*: save it as such"):
        load_questions(tmp_path)
    (tmp_path / "questions.jsonl").write_bytes(BOM_UTF8 + BRIDGE.model_dump_json().encode())
    assert load_questions(tmp_path) == [BRIDGE]


BRIDGE = Question(
    query="which bridge do I take?", intent="qa", document="d",
    judgements=(Judgement(grade=2, evidence="Turn around, and take the bridge to the shelter."),),
)  # fmt: skip


def test_the_last_grade_of_a_quote_holds_and_the_file_stays_as_it_was_otherwise(tmp_path):
    file, ours = tmp_path / "questions.jsonl", DOMAIN / "questions.jsonl"
    file.write_bytes(ours.read_bytes())
    assert add_judgements(file, []) == len(read_questions(ours)) and file.read_bytes() == ours.read_bytes()
    wrong, more = graded(0, BRIDGE.judgements[0].evidence, "d"), graded(1, "Close the windows.", "e")
    add_judgements(file, [wrong, BRIDGE, more])
    assert file.read_bytes().startswith(ours.read_bytes())
    assert read_questions(file)[-1] == BRIDGE.model_copy(update={"judgements": BRIDGE.judgements + more.judgements})


def graded(grade: int, evidence: str, document: str) -> Question:
    return BRIDGE.model_copy(update={"judgements": (Judgement(grade=grade, evidence=evidence),), "document": document})


def grades_of(file: Path) -> list[int]:
    return [judgement.grade for judgement in read_questions(file)[0].judgements]


def test_a_passage_that_is_graded_anew_keeps_no_other_grade_and_all_quotes_of_the_same(tmp_path):
    file, text = tmp_path / "questions.jsonl", "Close the windows. Turn around, and take the bridge to the shelter."
    add_judgements(file, [BRIDGE, graded(2, "Close the windows.", "e")])
    for grade, kept in ((2, [2, 2]), (0, [0])):
        add_judgements(file, [graded(grade, "Close the windows.", "e")], [text])
        assert grades_of(file) == kept


def test_blanks_make_no_other_question(tmp_path):
    file, spaced = tmp_path / "questions.jsonl", BRIDGE.model_copy(update={"query": " which  bridge do I take? "})
    more = graded(1, "Close the windows.", "d")
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in (spaced, more)))
    assert add_judgements(file, [graded(0, "Boil the water.", "d")]) == 1
    assert (read_questions(file)[0].query, grades_of(file)) == (spaced.query, [2, 1, 0])


def test_passages_that_overlap_keep_the_grades_that_are_given_at_once(tmp_path):
    file, text = tmp_path / "questions.jsonl", "Close the windows. Turn around, and take the bridge to the shelter."
    add_judgements(file, [graded(1, "Close the windows.", "d")])
    add_judgements(file, [BRIDGE, graded(0, "take the bridge", "d")], [text.partition(". ")[2], text])
    assert grades_of(file) == [2, 0]


@pytest.mark.parametrize(
    "text",
    [
        "Boil the water for one full minute 3 before you drink it or cook with it. Keep it covered.",
        "for one full minute before you drink it or cook with it. Keep it covered.",
    ],
    ids=["a footnote within", "a cut through it"],
)
def test_a_quote_that_a_passage_has_in_part_is_graded_anew_with_it_where_it_is_of_its_document(text, tmp_path):
    whole = "Boil the water for one full minute before you drink it or cook with it."
    assert Quotes([whole]).found_in(text), "most of its words"
    for document, kept in (("its own", [0]), ("another", [2, 0])):
        add_judgements(tmp_path / document, [graded(2, whole, document)])
        add_judgements(tmp_path / document, [graded(0, "Keep it covered.", "its own")], [text])
        assert grades_of(tmp_path / document) == kept


def test_of_two_that_judge_at_once_both_are_kept(tmp_path):
    questions = [BRIDGE.model_copy(update={"query": f"question {n}"}) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda question: add_judgements(tmp_path / "new" / "q.jsonl", [question]), questions))
    assert {q.query for q in read_questions(tmp_path / "new" / "q.jsonl")} == {q.query for q in questions}
    with pytest.raises(InputError, match="cannot be written"):
        add_judgements(tmp_path, questions)
