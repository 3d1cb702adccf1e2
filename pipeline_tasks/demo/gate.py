"""What a demo may not do: train on a document that its questions are about. Checked before it runs, and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.domains.questions import load_questions


def check_written(domain: Path) -> str:
    """That nothing was recorded about a document with judged questions; says what was counted.

    Raises:
        InputError: something was.
    """
    questions = load_questions(domain)
    judged = {question.document for question in questions}
    written = {file.stem for file in (domain / "recordings").glob("*.jsonl")}
    if both := sorted(judged & written):
        raise InputError(f"{domain.name}: {both[0]} has judged questions and recorded answers; take one of them away")
    return f"{len(questions)} judged questions on {len(judged)} documents; what is trained on was written about others"


def check_trained(store: Store) -> str:
    """That no training pair is of a document with a passage that answers a question; says how many there are.

    Raises:
        InputError: one is.
    """
    pairs = _rows(store, "mtp", "doc_id", "split")
    trained = {pair["doc_id"] for pair in pairs if pair["split"] != "test"}
    judgements = _rows(store, "judged/questions", "passage_ids", "grades")
    graded = [pair for row in judgements for pair in zip(row["passage_ids"], row["grades"], strict=True)]
    answers = {passage for passage, grade in graded if grade > 0}
    passages = _rows(store, "passages", "passage_id", "doc_id", "url")
    judged = {row["doc_id"]: row["url"] for row in passages if row["passage_id"] in answers}
    if both := sorted(trained & judged.keys()):
        raise InputError(f"{judged[both[0]]} is judged and trained on: run hold_out_documents with judged=true")
    n = sum(pair["split"] == "train" for pair in pairs)
    return f"{n} training pairs on {len(trained)} documents, none of the {len(judged)} that the questions are about"


def _rows(store: Store, dataset: str, *columns: str) -> list[dict[str, Any]]:
    return Version.open(store, Ref.parse(dataset)).table(list(columns)).to_pylist()
