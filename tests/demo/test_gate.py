"""The demo refuses to train on what its questions are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.demo.gate import check_trained, check_written
from pipeline_tasks.domains import domain_folder
from tests.stores import put

QUESTION = (
    '{"query": "why", "intent": "qa", "document": "flood", "judgements": [{"grade": 2, "evidence": "It rains."}]}'
)


def test_the_domain_as_it_is_passes() -> None:
    assert check_written(domain_folder()).startswith("195 judged questions on 13 documents")


def test_a_document_with_questions_and_recorded_answers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text(QUESTION + "\n")
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "flood.jsonl").write_text("")
    with pytest.raises(InputError, match="flood has judged questions and recorded answers"):
        check_written(tmp_path)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_pair_of_a_judged_document_is_refused_unless_it_is_held_out(tmp_path: Path, split: str) -> None:
    store = LocalStore(tmp_path / "store")
    pairs = [
        {"query_id": "1", "doc_id": "judged", "split": split},
        {"query_id": "2", "doc_id": "other", "split": "train"},
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    put(store, PASSAGES, [{"passage_id": "p", "doc_id": "judged", "url": "http://example.org/judged.pdf"}])
    put(store, JUDGED_QUERIES, [{"query_id": "q", "passage_ids": ["p"], "grades": [2]}], dataset="judged/questions")
    if split == "test":
        assert check_trained(store) == "1 training pairs on 1 documents, none of the 1 that the questions are about"
    else:
        with pytest.raises(InputError, match="judged.pdf is judged and trained on"):
            check_trained(store)
