"""Who has read the answers of what it is asked is told at every evaluation."""

from __future__ import annotations

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.versions import commit, load_manifest
from pipeline_tasks.datasets import EVALUATIONS, JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.evaluation.read_answers import read_answers
from tests.stores import put


def corpus(store, **sides):
    rows = [
        {"passage_id": f"{document}{n}", "doc_id": document, "split": side, "text": "t"}
        for document, side in sides.items()
        for n in range(2)
    ]
    return put(store, PASSAGES, rows)


def made(store, dataset, step="finetune", schema=FILES, **made_from):
    """A version without parts of what ``step`` writes."""
    inputs = {name: [str(ref)] for name, ref in made_from.items()}
    told = {"code_version": "1", "key": "name", "params": {}, "inputs": inputs, "rows": 0, "parts": []}
    manifest = Manifest(dataset=dataset, id=short_id(dataset), step=step, rows_schema=schema, **told)
    commit(store, manifest)
    return manifest.ref


def model(store, name, passages, **more):
    pairs = put(store, PAIRS, [{"query_id": name, "split": "train"}], dataset="mtp", passages=passages)
    return str(made(store, f"model/{name}", pairs=pairs, **more))


def judged(store, passages, *asked):
    rows = [{"query_id": q, "passage_ids": ids, "grades": grades} for q, ids, grades in asked]
    return str(put(store, JUDGED_QUERIES, rows, dataset="judged/questions", passages=passages))


def test_a_model_of_a_corpus_before_its_split_changed_is_named_and_no_other(store):
    old = model(store, "old", corpus(store, a="train", b="train", c="test"))
    passages = corpus(store, a="test", b="train", c="test")
    new = model(store, "new", passages)
    asked = [("q1", ["a0", "b0"], [2, 0]), ("q2", ["a1"], [1]), ("q3", ["c0", "gone"], [1, 1]), ("q4", ["b1"], [0])]
    queries = judged(store, passages, *asked)
    (told,) = read_answers(store, [old, new, "model/gone@" + "0" * 16], queries, str(passages))
    assert told.startswith(f"{old} may have read the answers to 2 of these queries: ")
    assert "a corpus that has 1 of the documents" in told


def test_what_a_checkpoint_was_chosen_by_and_rows_were_compared_with_was_not_read(store):
    read = corpus(store, a="train")
    old = model(store, "old", read)
    passages = corpus(store, a="test", b="train")
    queries = judged(store, passages, ("q1", ["a0"], [1]))
    scored = put(store, EVALUATIONS, [{"evaluation_id": "e"}], dataset="eval/x", models=old, passages=read)
    pool = put(store, PASSAGES, [{"passage_id": "c", "doc_id": "c", "split": "test"}], dataset="corpus/x-dev",
               evaluation=scored, passages=passages)  # fmt: skip
    chosen = model(store, "chosen", passages, judged_passages=pool, targets=queries, target_passages=read)
    checked = made(store, "mtp/checked", "decontaminate_pairs", "pairs", pairs=pool, passages=read, queries=queries)
    further = str(made(store, "model/further", init=chosen, pairs=checked, judged=queries, judged_passages=read))
    assert not list(read_answers(store, [chosen, further], queries, str(passages)))
    averaged = str(made(store, "model/averaged", "average_models", models=old))
    (told,) = read_answers(store, [further, averaged], queries, str(passages))
    assert told.startswith(f"{averaged} may have read")


def test_a_corpus_that_has_lost_a_part_is_told_and_stops_nothing(store):
    lost, read = corpus(store, a="train"), corpus(store, a="train", b="train")
    models = [model(store, "first", lost), model(store, "second", lost), model(store, "third", read)]
    passages = corpus(store, a="test")
    queries = judged(store, passages, ("q1", ["a0"], [1]))
    store.delete(load_manifest(store, lost).parts[0].key)
    cannot, told = read_answers(store, models, queries, str(passages))
    assert cannot.startswith(f"cannot tell for {lost} ") and told.startswith(f"{models[2]} may have read")
    store.delete(load_manifest(store, passages).parts[0].key)
    (cannot,) = read_answers(store, models, queries, str(passages))
    assert cannot.startswith(f"cannot tell for {queries} ")
