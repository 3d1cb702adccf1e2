from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import (
    EvaluateRetrieverParams,
    HeldOut,
    _heldout,
    _rank_stored,
    evaluate_retriever,
    system_name,
)
from pipeline_tasks.evaluation.systems import rank_bm25, rank_fused
from tests.stores import bare_run, put

TEXTS = {"p3": "sandbags against the flood", "p1": "a tornado takes the roof", "p2": "smoke fills the valley"}
QUERIES = {"q2": ("tornado roof", "p1", "test"), "q1": ("flood sandbags", "p3", "test"), "q0": ("smoke", "p2", "train")}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def inputs(store: LocalStore) -> Inputs:
    """Three passages and three pairs, of which two are held out, all out of order."""
    passages = put(store, PASSAGES, [{"passage_id": i, "text": text} for i, text in TEXTS.items()])
    pairs = [
        {"query_id": i, "query": query, "intent": "qa", "passage_id": source, "split": split}
        for i, (query, source, split) in QUERIES.items()
    ]
    asked = put(store, PAIRS, pairs, dataset="mtp")
    return Inputs({"passages": [Version.open(store, passages)], "pairs": [Version.open(store, asked)]})


def test_held_out_queries_are_asked_of_all_passages(inputs):
    assert _heldout(inputs) == HeldOut(
        query_ids=["q1", "q2"],
        queries=["flood sandbags", "tornado roof"],
        intents=["qa", "qa"],
        relevant=["p3", "p1"],
        passage_ids=["p1", "p2", "p3"],
        passages=[TEXTS["p1"], TEXTS["p2"], TEXTS["p3"]],
    )


def test_bm25_finds_what_it_should(inputs):
    heldout = _heldout(inputs)
    best = rank_bm25(heldout.queries, heldout.passages, 1)[:, 0]
    assert [heldout.passage_ids[i] for i in best] == heldout.relevant


def test_without_a_held_out_query_there_is_nothing_to_evaluate(store, inputs):
    asked = put(store, PAIRS, [{"query_id": "q0", "split": "train"}], dataset="mtp")
    given = Inputs({"passages": inputs.each("passages"), "pairs": [Version.open(store, asked)]})
    with pytest.raises(InputError, match="no held-out query"):
        evaluate_retriever.body(given, EvaluateRetrieverParams(), bare_run(store))


def test_a_reference_model_needs_vectors_of_queries_and_passages(store, inputs):
    made = put(store, PASSAGE_EMBEDDINGS, [{"passage_id": "p1"}], dataset="embeddings/one")
    given = Inputs(dict(inputs.items()) | {"embeddings": [Version.open(store, made)]})
    with pytest.raises(InputError, match=r"embeddings are of \['one'\], queries of \[\]"):
        evaluate_retriever.body(given, EvaluateRetrieverParams(), bare_run(store))


def embeddings(store: LocalStore, of: dict[str, list[float]]) -> Version:
    table = [{"passage_id": i, "embedding": vector} for i, vector in of.items()]
    return Version.open(store, put(store, PASSAGE_EMBEDDINGS, table, dataset="embeddings/m"))


def test_stored_embeddings_rank_the_passages_they_are_of(store, inputs):
    corpus = embeddings(store, {"p2": [0.0, 1.0], "p3": [0.6, 0.8], "p1": [1.0, 0.0]})
    asked = [
        {"query_id": i, "query_embedding": v} for i, v in {"q2": [1.0, 0.1], "q0": [0.0, 1.0], "q1": [0.5, 0.9]}.items()
    ]
    queries = Version.open(store, put(store, PAIR_EMBEDDINGS, asked, dataset="query_embeddings/m"))
    ranked = _rank_stored(corpus, queries, _heldout(inputs), 3)
    np.testing.assert_array_equal(ranked, [[2, 1, 0], [0, 2, 1]])


def test_embeddings_of_other_passages_are_refused(store, inputs):
    corpus = embeddings(store, {"p1": [1.0, 0.0], "p2": [0.0, 1.0]})
    queries = Version.open(store, put(store, PAIR_EMBEDDINGS, [], dataset="query_embeddings/m"))
    with pytest.raises(InputError, match="not of the evaluated passages"):
        _rank_stored(corpus, queries, _heldout(inputs), 2)


@pytest.mark.parametrize(
    ("stage", "params", "name"),
    [("pretrain", {}, "33m/pretrain"), ("finetune", {"alpha": 0.75}, "33m/finetune-0.75")],
)
def test_a_trained_model_is_named_by_size_stage_and_alpha(store, stage, params, name):
    ref = Ref(dataset=f"model/33m/{stage}", version="v")
    facts = {
        "step": stage,
        "code_version": "1",
        "rows_schema": "files",
        "key": "name",
        "inputs": {},
        "rows": 0,
        "parts": [],
    }
    manifest = Manifest(dataset=ref.dataset, id=ref.version, params=params, **facts)
    assert system_name(Version(store, manifest)) == name


def test_a_fusion_is_a_system_of_the_systems_it_names():
    ranked = {"bm25": np.array([[0, 1, 2]]), "m": np.array([[2, 1, 0]]), "33m/pretrain": np.array([[1, 2, 0]])}
    assert rank_fused("rrf(bm25, m)", ranked, 3).tolist() == [[0, 2, 1]], "1/61 + 1/63 exceeds 2/62; ties by position"
    assert rank_fused("rrf(bm25,33m/pretrain)", ranked, 2).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("name", "message"),
    [("bm25+m", "cannot be read"), ("rrf()", "cannot be read"), ("rrf(bm25,n)", "called 'n' here; known are bm25, m")],
)
def test_a_fusion_of_nothing_known_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        rank_fused(name, {"bm25": np.array([[0]]), "m": np.array([[0]])}, 1)
