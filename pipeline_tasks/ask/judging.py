"""From a passage that somebody graded to a judged question of the domain, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline_tasks.ask.answers import checked_question
from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.ask.quotes import plain
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.questions import Judgement, Question
from pipeline_tasks.domains.quotes import Quotes

GRADES = {2: "answers", 1: "helps", 0: "does neither"}


def judged(corpus: Corpus, query: str, intent: str, passage_id: str, grade: int, evidence: str) -> Question:
    """The question with one judgement, quoted from the passage so that it survives another chunking.

    Raises:
        InputError: there is no such question, intent, passage or grade, or evaluation would not find the quote in the
            passage.
    """
    text, row = checked_question(query, intent), corpus.passage(passage_id)
    if not Quotes([evidence]).found_in(row["text"]):
        raise InputError(f"passage {passage_id} does not hold {plain(evidence)[:80]!r}: quote it word by word")
    if grade not in GRADES:
        raise InputError(f"grade {grade} is none: {', '.join(f'{n} {word}' for n, word in GRADES.items())}")
    judgement = Judgement(grade=grade, evidence=plain(evidence))
    return Question(query=text, intent=intent, document=row["url"] or row["doc_id"], judgements=(judgement,))


def caution(corpus: Corpus, passage_id: str) -> str:
    """What to know of a question about this passage; nothing where its document is held out."""
    if corpus.passage(passage_id)["split"] in ("dev", "test"):
        return ""
    return "its document is not held out: a model that was trained on it is not tested by this question"


def is_known(questions: Iterable[Question], new: Question, text: str) -> bool:
    """Whether the passage of this text has the grade already that it is given: then nothing was graded anew."""
    of = grades(questions, new.query, new.intent, {"": text}).get("")
    return of is not None and all(judgement.grade == of.grade for judgement in new.judgements)


def grades(questions: Iterable[Question], query: str, intent: str, texts: Mapping[str, str]) -> dict[str, Judgement]:
    """Passage id -> the best judgement of it, as evaluation finds the quotes of this question in passages."""
    key = " ".join(query.split()), intent
    asked = (question for question in questions if question.key == key)
    known = [judgement for question in asked for judgement in question.judgements]
    quotes = Quotes(judgement.evidence for judgement in known)
    found = {i: [known[number] for number in quotes.found_in(text)] for i, text in texts.items()}
    return {i: max(judgements, key=lambda judgement: judgement.grade) for i, judgements in found.items() if judgements}
