"""What is missing or wrong in a domain's folder: file, key and remedy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.demo.blocks import parse_blocks
from pipeline_tasks.demo.gate import check_written
from pipeline_tasks.demo.recorded_llm import Recording, Written, read_recorded
from pipeline_tasks.demo.sample import load_documents, parse_document
from pipeline_tasks.domains import searches
from pipeline_tasks.domains.intents import load_intents, read_toml
from pipeline_tasks.domains.questions import load_questions
from pipeline_tasks.synthesis.prompting.prompts import load_prompts
from pipeline_tasks.synthesis.prompting.traits import load_traits

T = TypeVar("T")
Texts = dict[str, list[str]]
"""Document of the sample -> its paragraphs, list items and cells."""


@dataclass
class Findings:
    """What was found.

    Attributes:
        errors: what stops a run; each names its file, the key and the remedy.
        notes: what the domain does without.
        counts: what there is, in words.
    """

    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)

    def read(self, reading: Callable[..., T], *what: Any) -> T | None:
        """What ``reading`` gives of ``what``; None where it complains."""
        try:
            return reading(*what)
        except InputError as error:
            if str(error) not in self.errors:
                self.errors.append(str(error))
            return None


def check_domain(folder: Path) -> Findings:
    """All that is missing or wrong in the domain in ``folder``, and what it has."""
    found = Findings()
    intents = found.read(load_intents, folder) or {}
    found.counts.append(f"{len(intents)} intents")
    _check_prompts(folder, intents, found)
    _check_searches(folder, found)
    texts = _check_sample(folder, found)
    _check_questions(folder, intents, texts, found)
    _check_recordings(folder, intents, texts, found)
    return found


def _check_prompts(folder: Path, intents: Collection[str], found: Findings) -> None:
    written = sorted(file.stem for file in (folder / "prompts").glob("*.toml"))
    for intent in intents or written:
        found.read(load_prompts, folder, intent)
        found.read(load_traits, folder, intent)
    for name in written:
        if intents and name not in intents:
            found.notes.append(f"{folder / 'prompts' / name}.toml is of no intent; add [{name}] to intents.toml")


def _check_searches(folder: Path, found: Findings) -> None:
    file = folder / searches.FILE
    if not file.is_file():
        found.notes.append(f"there is no {file}: corpus_refresh needs a source")
        return
    plans = found.read(read_toml, file, dict[str, searches.SearchPlan]) or {}
    for name in plans:
        plan = found.read(searches.load_plan, folder, name)
        for axis, terms in plan.lists.items() if plan else ():
            found.read(searches.terms_of, folder / terms, axis)
    found.counts.append(f"{len(plans)} search plans")


def _check_sample(folder: Path, found: Findings) -> Texts:
    sample = folder / "sample"
    if not sample.is_dir():
        found.notes.append(f"there is no {sample}: the demo has nothing to crawl")
        return {}
    before = len(found.errors)
    read = [found.read(parse_document, file) for file in sorted(sample.glob("*.md"))]
    if len(found.errors) == before:
        found.read(load_documents, sample)
    found.counts.append(f"{len(read)} sample documents")
    return {document.name: [block.text for block in parse_blocks(document.body)] for document in read if document}


def _check_questions(folder: Path, intents: Collection[str], texts: Texts, found: Findings) -> None:
    questions = found.read(load_questions, folder)
    found.counts.append(f"{len(questions or ())} judged questions")
    if questions == []:
        found.notes.append(f"there is no {folder / 'questions.jsonl'}: models are scored on held-out queries alone")
    for question in questions or ():
        place = f"{folder / 'questions.jsonl'}: {question.query!r}"
        _check_intent(question.intent, intents, place, found)
        for judgement in question.judgements:
            if question.document in texts:
                _check_quote(judgement.evidence, question.document, texts, place, found)


def _check_recordings(folder: Path, intents: Collection[str], texts: Texts, found: Findings) -> None:
    files = sorted((folder / "recordings").glob("*.jsonl"))
    if not files:
        found.notes.append(f"there are no {folder / 'recordings'}/*.jsonl: the demo needs a model that writes")
    n = 0
    for file in files:
        if (sample := folder / "sample").is_dir() and not (sample / f"{file.stem}.md").is_file():
            found.errors.append(f"{file} is about no document of {sample}; call it as one is called")
        rows: list[Written] = found.read(list, read_recorded(file)) or []
        n += len(rows)
        for row in rows:
            _check_intent(row.intent, intents, f"{file}: {row.query!r}", found)
            if file.stem in texts:
                _check_quote(row.evidence, file.stem, texts, f"{file}: {row.query!r}", found)
    if files:
        found.read(Recording, (), folder)
    found.counts.append(f"{n} recorded answers")
    found.read(check_written, folder)


def _check_intent(intent: str, intents: Collection[str], place: str, found: Findings) -> None:
    if intents and intent not in intents:
        found.errors.append(f"{place}: intent {intent!r} is unknown; take one of {', '.join(intents)}")


def _check_quote(evidence: str, document: str, texts: Texts, place: str, found: Findings) -> None:
    if not any(evidence in text for text in texts[document]):
        found.errors.append(f"{place}: evidence {evidence[:60]!r} is not in {document}; quote it to the letter")
