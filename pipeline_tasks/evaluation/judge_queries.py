"""Judged sets: held-out queries of our own, the domain's questions, and what others have judged."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, short_id
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.domains.questions import OWN_SETS, Question, load_questions
from pipeline_tasks.domains.quotes import Quotes
from pipeline_tasks.evaluation.folder_params import FolderParams
from pipeline_tasks.evaluation.judged_folder import QUERIES, JudgedFolder
from pipeline_tasks.evaluation.judged_rows import AT_ONCE, judged

log = logging.getLogger(__name__)
HELD_OUT, QUESTIONS = OWN_SETS
ANY_INTENT = "any"
_SHOWN = 10
_OWN = ", ".join(OWN_SETS)


class JudgeQueriesParams(FolderParams):
    """Whose queries."""

    set_name: str = Field(
        HELD_OUT,
        description="heldout: queries that an LLM wrote for documents of the split test; questions: the domain's own; "
        "else the name of what is in the folder",
    )
    folder: str = Field("", description="folder with corpus.jsonl, queries.jsonl and qrels; none for our own sets")
    _questions: list[Question] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        """Read the questions once, so that one run is of one state of them."""
        if bool(self.folder) == (self.set_name in OWN_SETS):
            raise InputError(
                f"set_name={self.set_name!r}, folder={self.folder!r}: own sets ({_OWN}) have no folder, others one"
            )
        super().model_post_init(context)
        if self.set_name == QUESTIONS:
            self._questions = load_questions(domain_folder())

    def identity(self) -> dict[str, Any]:
        """The parameters, what the questions say, what the folder's files hold, and the intents that there are."""
        found = super().identity() | {"questions": digest([q.model_dump(mode="json") for q in self._questions])}
        return found if self.set_name == HELD_OUT else found | {"intents": sorted(self.intents)}

    def unread(self) -> frozenset[str]:
        """Pairs, which have held-out queries alone."""
        return frozenset() if self.set_name == HELD_OUT else frozenset({"pairs"})

    @cached_property
    def intents(self) -> list[str]:
        """Those that the domain has, read once."""
        return list(load_intents(domain_folder()))

    @property
    def questions(self) -> list[Question]:
        """The domain's judged questions."""
        return self._questions


@step(
    reads={"passages": PASSAGES, "pairs": From(PAIRS, "mtp", optional=True)},
    writes=JUDGED_QUERIES,
    kind="reduce",
    dataset="judged/{set_name}",
    version="5",
)
def judge_queries(inputs: Inputs, params: JudgeQueriesParams, run: Run) -> pa.Table:
    """Held-out queries with the passage that each was written from, the domain's questions, or a folder's queries.

    A question's judgement holds for every passage that has its quote (:class:`Quotes`). Queries of a folder that this
    split does not judge belong to others, and are counted; without an intent they have the intent ``any``. Reasons of
    rejects: ``duplicate_id``, ``blank_query``, ``unknown_intent`` (the domain has none of that name), ``no_passage``
    (nothing that answers it is in the corpus); ``unknown_passage`` and ``unknown_query`` are judgements of what is not
    there.

    Raises:
        InputError: no query is left, or a file does not hold what it should.
    """
    if params.set_name == HELD_OUT:
        return judged(_heldout(inputs), inputs, run)
    found = _questions(inputs, params.questions) if params.set_name == QUESTIONS else _in_folder(params.open(), run)
    return judged(_of_the_domain(found, params.intents, run), inputs, run)


def _of_the_domain(rows: Iterable[dict[str, Any]], known: Collection[str], run: Run) -> Iterator[dict[str, Any]]:
    """Those of an intent that the domain has, or of none; nobody judges another, and no instruction asks it.

    Raises:
        InputError: there are none, and some of others.
    """
    n_known, others = 0, set[str]()
    for row in rows:
        if row["intent"] in known or row["intent"] == ANY_INTENT:
            n_known += 1
            yield row
            continue
        others.add(row["intent"])
        run.count("rows_in")
        run.reject(row["query_id"], "unknown_intent", f"{row['intent']}: the domain has {', '.join(known)}")
    if others and not n_known:
        raise InputError(
            f"all queries have intents that the domain does not have, {', '.join(sorted(others)[:_SHOWN])}; it has "
            f"{', '.join(known)}: name the domain of these queries in FOUNDRY_DOMAIN, or leave their intent out"
        )


def _in_folder(folder: JudgedFolder, run: Run) -> Iterator[dict[str, Any]]:
    judgements = folder.judgements()
    seen, row = set(), None
    for row in folder.rows(QUERIES):
        if row["_id"] not in judgements:
            run.count("queries_unjudged")
            continue
        seen.add(row["_id"])
        named = {"query_id": row["_id"], "doc_id": "", "intent": row["intent"] or ANY_INTENT}
        yield named | {"query": row["text"], "judged": judgements[row["_id"]]}
    if row is None:
        raise InputError(f"{folder.path} has no query: {QUERIES} is empty")
    if not seen:
        why = "its qrels are of other queries" if judgements else "its qrels are empty"
        raise InputError(f"no query of {folder.path} is judged: {why}")
    for name in sorted(judgements.keys() - seen):
        run.reject(name, "unknown_query")


def _heldout(inputs: Inputs) -> Iterator[dict[str, Any]]:
    if "pairs" not in inputs:
        raise InputError("held-out queries are those of pairs, and there are none: run combine_pairs, or name pairs=")
    asked: dict[tuple[str, str], dict[str, Any]] = {}
    for rows in inputs["pairs"].batches(["query_id", "query", "intent", "passage_id", "doc_id", "split"], AT_ONCE):
        for pair in rows.filter(pc.field("split") == "test").to_pylist():
            words = " ".join((pair["query"] or "").lower().split()) or pair["query_id"]
            known = {name: pair[name] for name in ("query_id", "doc_id", "intent", "query")} | {"judged": {}}
            of = asked.setdefault((pair["intent"], words), known)
            of["judged"][pair["passage_id"]] = 1
            of["doc_id"] = of["doc_id"] if of["doc_id"] == pair["doc_id"] else ""
    yield from asked.values()
    if not asked:
        raise InputError(f"{inputs['pairs'].manifest.ref} has no held-out query; raise test_fraction or sample_rate")


def _questions(inputs: Inputs, questions: list[Question]) -> Iterator[dict[str, Any]]:
    if not questions:
        raise InputError(f"{domain_folder().name} has no questions.jsonl: write one, or evaluate with --on heldout")
    asked = [(question, judgement) for question in questions for judgement in question.judgements]
    quotes = Quotes(judgement.evidence for _, judgement in asked)
    grades_of: dict[tuple[str, str], dict[str, int]] = {}
    documents: dict[tuple[str, str], set[str]] = {}
    trained: set[str] = set()
    for passage in _passages(inputs):
        for number in quotes.found_in(passage["text"]):
            question, judgement = asked[number]
            trained |= {passage["doc_id"]} if judgement.grade and passage["split"] == "train" else set()
            grades = grades_of.setdefault(_key(question), {})
            grades[passage["passage_id"]] = max(judgement.grade, grades.get(passage["passage_id"], 0))
            documents.setdefault(_key(question), set()).add(passage["doc_id"])
    if trained:
        log.warning(
            "documents that answer a question are trained on (%d), so that it tests no model that has read them: run "
            "hold_out_documents again, and what comes after it",
            len(trained),
        )
    for q in questions:
        of = documents.get(_key(q), set())  # a question of several outlives the erasure of one
        name = {"query_id": short_id(*_key(q)), "doc_id": "".join(of) if len(of) == 1 else ""}
        yield name | {"intent": q.intent, "query": q.query, "judged": grades_of.get(_key(q), {})}


def _key(question: Question) -> tuple[str, str]:
    return question.intent, question.query


def _passages(inputs: Inputs) -> Iterator[dict[str, Any]]:
    for batch in inputs["passages"].batches(["passage_id", "doc_id", "text", "split"], AT_ONCE):
        yield from batch.to_pylist()
