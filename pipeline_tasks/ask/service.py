"""What the page asks for: the corpus, answers, the lineage of a row, and judgements to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline_tasks.ask.answers import LONGEST_QUESTION, answer
from pipeline_tasks.ask.catalog import best_first
from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.ask.judging import caution, grades, judged
from pipeline_tasks.ask.systems import System, open_system
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.story import find_queries, story
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.domains.questions import add_judgements, read_questions
from pipeline_tasks.evaluation.systems import BM25

AT_ONCE = 4


class SentJudgement(BaseModel):
    """A judgement as the page sends it."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(max_length=LONGEST_QUESTION)
    intent: str = Field(max_length=100)
    passage_id: str = Field(max_length=100)
    grade: int
    evidence: str = Field(max_length=10_000)


class Service:
    """Answers for one corpus, one question at a time; systems are opened when first asked, and stay open."""

    def __init__(self, corpus: Corpus, reader: Reader, names: Sequence[str], save: Path | None) -> None:
        """Take ``names`` first, then what the store has; judgements go to ``save``, or nowhere."""
        self._corpus, self._reader, self._save = corpus, reader, save
        self._names = list(dict.fromkeys([*names, *best_first(corpus, reader)]))
        self._chosen = list(names[:2]) if len(names) > 1 else self._two(self._names)
        self._opened: dict[str, System] = {}
        self._turn = Lock()

    def open(self, names: Sequence[str]) -> None:
        """Open these systems now, so that the first question does not wait."""
        for name in names:
            self._system(name)

    def about(self) -> dict[str, Any]:
        """What can be asked, and whether judgements are kept."""
        return {
            "corpus": str(self._corpus.manifest.ref),
            "n_passages": self._corpus.rows.num_rows,
            "n_documents": len(self._corpus.rows["doc_id"].unique()),
            "intents": list(load_intents(domain_folder())),
            "systems": self._names,
            "chosen": self._chosen,
            "saves_to": self._save.name if self._save else "",
        }

    def ask(self, question: str, intent: str, names: Sequence[str], most: int) -> dict[str, Any]:
        """The answers of these systems, and what is judged of this question so far.

        Raises:
            InputError: the question cannot be asked, a system is none of those in :meth:`about`, or the corpus has
                changed.
        """
        asked = list(dict.fromkeys(names))
        unknown = [name for name in asked if name not in self._names]
        if unknown or not 1 <= len(asked) <= AT_ONCE:
            raise InputError(f"ask 1 to {AT_ONCE} of {', '.join(self._names)}, not {', '.join(asked) or 'none'}")
        self._check_current()
        with self._turn:
            found = answer(self._corpus, self._reader, [self._system(name) for name in asked], question, intent, most)
        texts = {i: row["text"] for i, row in found.passages.items()}
        known = grades(read_questions(self._save), found.question, intent, texts) if self._save else {}
        return asdict(found) | {"judged": {i: judgement.model_dump() for i, judgement in known.items()}}

    def judge(self, given: SentJudgement) -> dict[str, Any]:
        """Keep a judgement.

        Raises:
            InputError: nothing is kept here, it is no judgement of a passage of this corpus, or the corpus has changed.
        """
        if not self._save:
            raise InputError("judgements are not kept: start with --save questions.jsonl")
        self._check_current()
        question = judged(self._corpus, given.question, given.intent, given.passage_id, given.grade, given.evidence)
        n = add_judgements(self._save, [question], [self._corpus.passage(given.passage_id)["text"]])
        return {
            "n_questions": n,
            "saved_to": self._save.name,
            "judgement": question.judgements[0].model_dump(),
            "caution": caution(self._corpus, given.passage_id),
        }

    def queries(self, contains: str) -> list[dict[str, Any]]:
        """Some queries that contain a text."""
        return find_queries(self._reader, contains)

    def trace(self, name: str) -> dict[str, Any]:
        """The story of a query or a passage."""
        return story(self._reader, name)

    def _check_current(self) -> None:
        """Say nothing of what was erased since the corpus was opened, and write none of it down.

        Raises:
            InputError: the corpus is not what it was.
        """
        ref = self._corpus.manifest.ref
        if load_manifest(self._corpus.store, ref) != self._corpus.manifest:
            raise InputError(f"{ref} has changed since it was opened, as by an erasure: start `foundry ask` again")

    def _system(self, name: str) -> System:
        if name not in self._opened:
            self._opened[name] = open_system(name, self._corpus)
        return self._opened[name]

    @staticmethod
    def _two(names: Sequence[str]) -> list[str]:
        """The best, and what it has to beat: the first that is of another kind."""
        rivals = [name for name in names[1:] if ("/" in name) != ("/" in names[0]) or name == BM25]
        return [names[0], *rivals[:1]]
