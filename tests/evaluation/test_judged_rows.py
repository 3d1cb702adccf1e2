"""Queries are scored over the passages that they were judged on, and over no others."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.todo import Todo
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.versions import manifest_key
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_instructions import evaluate_instructions
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.judge_instructions import judge_instructions
from pipeline_tasks.evaluation.judge_queries import judge_queries
from pipeline_tasks.evaluation.pool_passages import pool_passages
from pipeline_tasks.evaluation.read_passages import read_passages
from tests.evaluation.test_judged_sets import folder
from tests.stores import go, put, rows

ALONE = {"size": "", "models": (), "systems": ("bm25",)}
TEXTS = {"p1": "sandbags hold back water", "p2": "pumps move water", "p3": "ash on roofs"}
PASSAGE_ROWS = [{"passage_id": name, "text": text} for name, text in TEXTS.items()]


def evaluated(store, step=evaluate_retriever, **given):
    return go(store, step, {"models": []} | given, set_name="mine", **ALONE).ref


def test_a_set_of_a_folder_is_not_scored_over_the_passages_of_the_domain(store, tmp_path):
    put(store, PASSAGES, [{"passage_id": "own", "text": "water"}])
    corpus = [{"_id": name, "text": text} for name, text in TEXTS.items()]
    there = folder(tmp_path / "set", corpus, [{"_id": "a", "text": "which pumps?"}], "a\tp2\t1\n")
    read = go(store, read_passages, set_name="mine", folder=there).ref
    judged = go(store, judge_queries, {"passages": [str(read)]}, set_name="mine", folder=there).ref
    remedy = f"{judged} was judged on {read}, not passages@.*: give --input passages={read}, or run judge_queries on"
    with pytest.raises(InputError, match=remedy):
        evaluated(store)
    assert not [key for key in store.keys("refs") if key.startswith("refs/eval/")]
    evaluated(store, passages=[str(read)])
    assert rows(store, "eval/mine")[0]["passage_ids"] == ["p2"]


@pytest.fixture
def judged(store):
    """Two passages that answer a query, judged on ``passages`` as they are now."""
    passages = put(store, PASSAGES, PASSAGE_ROWS)
    row = {"query_id": "q", "intent": "qa", "query": "what of water?", "doc_id": ""}
    answers = {"passage_ids": ["p1", "p2"], "grades": [1, 1]}
    return put(store, JUDGED_QUERIES, [row | answers], dataset="judged/mine", passages=passages)


def test_what_was_judged_before_passages_were_cut_anew_is_neither_scored_nor_given_instructions(store, judged):
    go(store, judge_instructions, set_name="mine")
    newer = put(store, PASSAGES, [*PASSAGE_ROWS[1:], {"passage_id": "p4", "text": "sandbags hold"}])
    for step, queries in ((evaluate_retriever, judged), (evaluate_instructions, "instructed/mine@.*")):
        with pytest.raises(InputError, match=f"{queries} was judged on passages@.*, not {newer}"):
            evaluated(store, step)
    with pytest.raises(InputError, match=f"{judged} was judged on passages@.*, not {newer}"):
        go(store, judge_instructions, set_name="mine")


def test_what_an_older_release_made_of_other_passages_is_refused_as_well(store, judged, monkeypatch):
    put(store, PASSAGES, PASSAGE_ROWS[1:])
    with monkeypatch.context() as older:
        older.setattr(EvaluationParams, "check_versions", lambda *_: None)
        made = evaluated(store)
    again = {"set_name": "mine", **ALONE}
    with pytest.raises(InputError, match=f"{judged} was judged on"):
        go(store, evaluate_retriever, {"models": []}, **again)
    with pytest.raises(InputError, match=f"{judged} was judged on"):
        Todo.of(store, plan(store, evaluate_retriever, again, {"models": []}))
    with pytest.raises(InputError, match=f"{judged} was judged on"):
        go(
            store,
            pool_passages,
            {"evaluation": [str(made)], "passages": ["passages"]},
            set_name="mine",
            models=("bm25",),
        )


def test_the_same_rows_are_the_passages_that_were_judged_whatever_they_are_called(store, judged):
    other = put(store, PASSAGES, PASSAGE_ROWS, dataset="corpus/copy")
    assert evaluated(store, passages=[str(other)]) != evaluated(store)


def test_passages_of_which_nobody_knows_the_rows_are_others(store, judged):
    other = put(store, PASSAGES, PASSAGE_ROWS, dataset="corpus/copy")
    store.delete(manifest_key(put(store, PASSAGES, PASSAGE_ROWS)))
    with pytest.raises(InputError, match=f"not {other}"):
        evaluated(store, passages=[str(other)])
