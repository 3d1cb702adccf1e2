"""Queries that are passages themselves, as in ArguAna: none finds itself."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.partitions import Partition, Rows
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.rank_systems import _without, rank_system
from tests.stores import bare_run, go, put, rows

ASKED = {"size": "", "systems": ("bm25",), "measures": ("ndcg@1",), "kept": 2}
PRO, CON = "dams keep towns dry in spring", "dams keep rivers from their towns in spring"


def found(tmp_path, query_id: str, query: str, judged: str, text: str = PRO) -> list[str]:
    """The first two passages of a query, in a corpus with a passage of the id ``1``."""
    store = LocalStore(tmp_path / "store")
    texts = {"1": text, "2": CON, "3": "dams break"}
    put(store, PASSAGES, [{"passage_id": name, "text": text} for name, text in texts.items()])
    row = {"query_id": query_id, "query": query, "intent": "any", "passage_ids": [judged], "grades": [1]}
    put(store, JUDGED_QUERIES, [row], dataset="judged/heldout")
    go(store, evaluate_retriever, {"models": []}, **ASKED)
    (scored,) = rows(store, "eval/heldout")
    return scored["passage_ids"]


def test_a_query_that_is_a_passage_does_not_find_itself(tmp_path):
    assert found(tmp_path, "1", PRO, "2") == ["2", "3"]


def test_before_its_text_there_may_be_a_title(tmp_path):
    assert found(tmp_path, "1", PRO, "2", text=f"On dams\n{PRO}") == ["2", "3"]


@pytest.mark.parametrize(
    ("query_id", "query", "judged"),
    [("9", PRO, "2"), ("1", "dry towns", "2"), ("1", PRO, "1")],
    ids=["another id", "a number that both have", "judged for itself"],
)
def test_any_other_passage_is_found(tmp_path, query_id, query, judged):
    assert found(tmp_path, query_id, query, judged)[0] == "1"


def test_rankings_without_oneself_are_as_deep_as_before():
    ranked = np.array([[4, 7, 2], [7, 4, 2], [7, 4, -1], [1, 2, 3]])
    assert _without(np.array([7, 7, 7, -1]), ranked, 2).tolist() == [[4, 2], [4, 2], [4, -1], [1, 2]]


def test_texts_of_a_corpus_are_held_a_block_at_a_time(tmp_path):
    """A ranking by BM25, in which a query is a passage itself, takes less than all texts do."""
    store, n_words = LocalStore(tmp_path / "store"), 6_000
    texts = {str(n): f"{n} rivers " + "".join(f"w{i % 97} " for i in range(n, n + n_words)) for n in range(60)}
    put(store, PASSAGES, *([{"passage_id": name, "text": text}] for name, text in texts.items()))
    asked = {"query_id": "7", "query": texts["7"], "intent": "any", "passage_ids": ["8"], "grades": [1]}
    judged = put(store, JUDGED_QUERIES, [asked], dataset="judged/heldout")
    given = {"queries": Rows(Version.open(store, judged)), "passages": Rows(Version.open(store, Ref.parse("passages")))}
    values = {"kind": "bm25", "decided_by": {}, "told": ["instruction"], "depth": 2}
    work = partial(rank_system, Partition(given, values=values), bare_run(store))
    first = list(work())
    tracemalloc.start()
    try:
        assert list(work()) == first
        assert tracemalloc.get_traced_memory()[1] < sum(map(len, texts.values()))
    finally:
        tracemalloc.stop()
