"""Who has read the answers of what it is asked is told at every evaluation."""

from __future__ import annotations

from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.evaluation.read_answers import read_answers
from tests.stores import put


def corpus(store, **sides):
    rows = [
        {"passage_id": f"{document}{n}", "doc_id": document, "split": side, "text": "t"}
        for document, side in sides.items()
        for n in range(2)
    ]
    return put(store, PASSAGES, rows)


def model(store, name, passages):
    pairs = put(store, PAIRS, [{"query_id": name, "split": "train"}], dataset="mtp", passages=passages)
    return str(put(store, PAIRS, [{"query_id": f"rows of {name}"}], dataset=f"model/{name}", pairs=pairs))


def test_a_model_of_a_corpus_before_its_split_changed_is_named_and_no_other(store):
    old = model(store, "old", corpus(store, a="train", b="train", c="test"))
    passages = corpus(store, a="test", b="train", c="test")
    new = model(store, "new", passages)
    asked = [("q1", ["a0", "b0"], [2, 0]), ("q2", ["a1"], [1]), ("q3", ["c0", "gone"], [1, 1]), ("q4", ["b1"], [0])]
    rows = [{"query_id": q, "passage_ids": ids, "grades": grades} for q, ids, grades in asked]
    queries = str(put(store, JUDGED_QUERIES, rows, dataset="judged/questions", passages=passages))
    (told,) = read_answers(store, [old, new, "model/gone@" + "0" * 16], queries, str(passages))
    assert told.startswith(f"{old} may have read the answers to 2 of these queries: ")
    assert "a corpus that has 1 of the documents" in told
