from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.judge_queries import judge_queries
from pipeline_tasks.evaluation.rank_systems import _has_answer, _systems, fuse_systems, system_name
from pipeline_tasks.evaluation.scores import AVERAGE, scores_of
from pipeline_tasks.evaluation.stored_vectors import passage_vectors, query_vectors
from pipeline_tasks.evaluation.systems import FUSED_DEPTH, Queries, encoder_of_folder, identity
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.encoder import Encoder
from tests import shapes
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
TEXTS = {"p3": "sandbags against the flood", "p1": "a tornado takes the roof", "p2": "smoke fills the valley"}
JUDGED = {
    "q2": ("tornado roof", "qa", {"p1": 2, "p2": 0}),
    "q1": ("flood sandbags", "qa", {"p3": 1}),
    "q3": ("tornado valley", "nli", {"p2": 1, "p3": 1}),
}
ALONE = {"size": "", "models": (), "systems": ("bm25",)}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Three passages and three judged queries, all out of order."""
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": i, "text": text} for i, text in TEXTS.items()])
    judged = [
        {"query_id": i, "query": text, "intent": intent, "passage_ids": [*grades], "grades": [*grades.values()]}
        for i, (text, intent, grades) in JUDGED.items()
    ]
    put(store, JUDGED_QUERIES, judged, dataset="judged/heldout")
    return store


def evaluated(store: LocalStore, given: dict | None = None, **values: object) -> Version:
    return Version.open(store, go(store, evaluate_retriever, {"models": []} | (given or {}), **(ALONE | values)).ref)


def test_a_row_is_one_query_of_one_system(store):
    evaluated(store, measures=("ndcg@10", "mrr@10"), kept=2)
    found = {row["query_id"]: row for row in rows(store, "eval/heldout")}
    assert [*found] == ["q1", "q2", "q3"]
    row = found["q2"]
    assert (row["evaluation_id"], row["system"], row["query"], row["n_relevant"]) == (
        "bm25/q2",
        "bm25",
        "tornado roof",
        1,
    )
    assert dict(row["scores"]) == {"ndcg@10": 1.0, "mrr@10": 1.0}
    assert row["passage_ids"] == ["p1"], "BM25 finds nothing that shares no word"
    assert row["grades"] == [{"p1": 2, "p2": 0}.get(i) for i in row["passage_ids"]]


def test_a_query_that_an_erasure_left_without_an_answer_is_not_asked(store):
    left = {"q4": ("what is gone?", "qa", {}), "q5": ("what else is gone?", "qa", {"p1": 0})}
    judged = [
        {"query_id": i, "query": text, "intent": intent, "passage_ids": [*grades], "grades": [*grades.values()]}
        for i, (text, intent, grades) in (JUDGED | left).items()
    ]
    put(store, JUDGED_QUERIES, judged, dataset="judged/heldout")
    evaluated(store)
    assert [row["query_id"] for row in rows(store, "eval/heldout")] == ["q1", "q2", "q3"]


@pytest.mark.parametrize(
    ("first", "then", "asked"),
    [([1, 0], None, True), ([0, 0], None, False), ([], None, False), ([1, 0], [0, 0], True), ([1, 0], [2, 0], False)],
)
def test_what_is_asked_has_an_answer_and_what_is_asked_twice_another(first, then, asked):
    assert _has_answer(first, then) is asked


def test_the_lineage_has_scores_by_query_and_means_over_intents(store):
    evaluated(store)
    by_query = query(
        store, "SELECT query_id, score FROM query_scores WHERE metric = 'recall@10' ORDER BY 1"
    ).to_pylist()
    assert [(row["query_id"], row["score"]) for row in by_query] == [("q1", 1.0), ("q2", 1.0), ("q3", 0.5)]
    means = query(
        store, "SELECT intent, score, n_queries FROM evaluations WHERE metric = 'mrr@10' ORDER BY 1"
    ).to_pylist()
    assert [(row["intent"], row["n_queries"]) for row in means] == [("average", 3), ("nli", 1), ("qa", 2)]
    assert means[0]["score"] == pytest.approx((means[1]["score"] + means[2]["score"]) / 2)


@pytest.fixture(scope="module")
def model() -> str:
    """A reference model that is on this machine."""
    fetch(get(MODEL), settings().cache)
    return MODEL


def asked_of_pairs(store: LocalStore, changed: str = "") -> Ref:
    """The judged queries as what ``judge_queries`` makes of held-out pairs, each with ``changed`` behind it."""
    pairs = [
        {"query_id": i, "query": text + changed, "intent": intent, "split": "test", "positive": text}
        | {"passage_id": next(iter(grades)), "doc_id": "d", "positive_id": f"positive-{i}"}
        for i, (text, intent, grades) in JUDGED.items()
    ]
    put(store, PAIRS, pairs, dataset="mtp")
    return go(store, judge_queries).ref


def test_what_the_pipeline_has_encoded_is_not_encoded_again(store, model):
    alone = {"size": "", "models": (), "systems": (model,), "measures": ("ndcg@10",)}
    asked_of_pairs(store)
    fresh = go(store, evaluate_retriever, {"models": []}, **alone)
    assert (fresh.counters["texts_encoded"], fresh.counters["vectors_read"]) == (6, 0)
    found = rows(store, "eval/heldout")
    go(store, embed_passages, model=model)
    go(store, embed_pairs, model=model)
    all_read = go(store, evaluate_retriever, {"models": []}, **alone | {"models": (model,)})
    assert (all_read.counters["texts_encoded"], all_read.counters["vectors_read"]) == (0, 6)
    assert [row["passage_ids"] for row in rows(store, "eval/heldout")] == [row["passage_ids"] for row in found]
    asked_of_pairs(store, changed=" smoke")
    other = go(store, evaluate_retriever, {"models": []}, **alone | {"models": (model,)})
    assert (other.counters["texts_encoded"], other.counters["vectors_read"]) == (3, 3), "queries of other pairs"


def test_a_model_that_is_told_something_else_is_asked_anew(store, model, monkeypatch):
    asked_of_pairs(store)
    go(store, embed_pairs, model=model)
    judged = Version.open(store, Ref.parse("judged/heldout"))
    assert len(query_vectors(judged, model, "float32")) == len(JUDGED)
    assert query_vectors(judged, model, "int8") is None
    monkeypatch.setattr("pipeline_tasks.retrieval.embed_pairs.instructions_of", lambda spec: {"qa": "Answer: "})
    assert query_vectors(judged, model, "float32") is None


def test_a_model_that_was_not_asked_some_queries_is_asked_them_all(store, model, monkeypatch, tmp_path):
    asked_of_pairs(store)
    (tmp_path / "told.toml").write_text('[embed_pairs]\nintents = ["qa"]')
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "told.toml"))
    settings.cache_clear()
    go(store, embed_pairs, model=model)
    assert query_vectors(Version.open(store, Ref.parse("judged/heldout")), model, "float32") is None
    settings.cache_clear()


def test_what_the_untrained_system_is_told_is_in_the_id_and_in_what_its_ranking_rests_on(store, monkeypatch):
    decided = []
    for told in ({}, {"qa": "Answer: "}, {"qa": "Reply: "}):
        for room in ("evaluation_params", "rank_systems"):
            monkeypatch.setattr(f"pipeline_tasks.evaluation.{room}.instructions_of", lambda spec, told=told: told)
        given = EvaluationParams(**ALONE | {"size": "22m"})
        (start,) = (one for one in _systems(Inputs({}), given) if one.kind == "start")
        decided.append((given.identity().get("instructions"), start.decided_by.get("instructions")))
    assert decided == [(None, None), ({"qa": "Answer: "},) * 2, ({"qa": "Reply: "},) * 2]


def test_embeddings_of_other_passages_are_refused(store):
    stored = put(store, PASSAGE_EMBEDDINGS, [{"passage_id": "p1", "embedding": [1.0]}])
    with pytest.raises(InputError, match="not of the evaluated passages"):
        passage_vectors(Version.open(store, stored), sorted(TEXTS))


@pytest.mark.parametrize("name", ["2_Dense/model.safetensors", "model.onnx", "model.onnx.data", "model.onnx_data"])
def test_every_file_of_weights_has_a_say_in_what_a_folder_is(tmp_path, name):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    found = []
    for weights in (b"one", b"other"):
        (tmp_path / name).write_bytes(weights)
        found.append(identity(str(tmp_path)))
    assert found[0] != found[1]


def test_scores_are_sorted_and_compared(store, tmp_path):
    version = evaluated(store, systems=("bm25", str(shapes.make("bert", tmp_path / "mine"))))
    found = scores_of(version, "mrr@10")
    assert found.counts == {AVERAGE: 3, "nli": 1, "qa": 2}
    means = [row[AVERAGE].mean for row in found.table.values()]
    assert means == sorted(means, reverse=True)
    ((name, difference),) = found.gains("bm25").items()
    assert difference.gain == pytest.approx(found.score(name).mean - found.score("bm25").mean)
    with pytest.raises(InputError, match="'nobody' was not evaluated here; these were: "):
        found.resolve_system("nobody")
    with pytest.raises(InputError, match="has no 'map@3'; it has ndcg@10, map@10, mrr@10"):
        scores_of(version, "map@3")


@pytest.mark.parametrize(
    ("stage", "params", "name"),
    [("pretrain", {}, "33m/pretrain"), ("finetune", {"alpha": 0.75}, "33m/finetune-0.75")],
)
def test_a_trained_model_is_named_by_size_stage_and_alpha(store, stage, params, name):
    ref = Ref(dataset=f"model/33m/{stage}", version="v")
    facts = {"step": stage, "code_version": "1", "rows_schema": "files", "key": "name", "inputs": {}, "rows": 0}
    manifest = Manifest(dataset=ref.dataset, id=ref.version, params=params, parts=[], **facts)
    assert system_name(Version(store, manifest)) == name


def fused(store: LocalStore, members: list[list[list[str]]], depth: int, k: int = 60) -> list[list[str]]:
    """What ``fuse_systems`` makes of rankings."""
    parts = [write_rows(store, pa.table({"passage_ids": ranked})) for ranked in members]
    given = Partition(parts={"members": parts}, values={"depth": depth, "k": k})
    (found,) = fuse_systems(given, Run(store, Inputs({}), 0, "fusion", "fusion"))
    return found["passage_ids"].to_pylist()


def test_a_fusion_is_of_the_ranks_that_its_systems_give(store):
    assert fused(store, [[["a", "b", "c"]], [["c", "b", "a"]]], 3) == [["a", "c", "b"]], "1/61 + 1/63 exceeds 2/62"
    assert fused(store, [[["a", "b", "c"]], [["b", "c", "a"]]], 2) == [["b", "a"]]
    assert fused(store, [[["a", "c", "b"]], [["d", "e", "b"]]], 1) == [["b"]], "twice third exceeds once first"
    assert fused(store, [[["a", "c", "b"]], [["d", "e", "b"]]], 1, k=0) == [["a"]], "1 exceeds 2/3"
    short = [[["a"], ["b", "c"]], [["b"], []]]
    assert fused(store, short, 3) == [["a", "b"], ["b", "c"]], "rankings may be of any length"


def test_the_first_ranks_of_a_fusion_are_the_same_however_deep_it_is_looked_at(store):
    """b would win by its rank in the second, which is one behind the last that is read; one rank higher it does."""
    others = [f"c{i:04}" for i in range(FUSED_DEPTH + 8)]
    members = [[["a", "b", *others]], [[*(f"d{i}" for i in range(FUSED_DEPTH)), "b"]]]
    shallow, deep = (fused(store, members, depth)[0] for depth in (1, 3 * FUSED_DEPTH))
    assert shallow == deep[:1] == ["a"] and len(deep) == 2 * FUSED_DEPTH
    members[1][0][FUSED_DEPTH - 1 :] = ["b"]
    assert fused(store, members, 1) == [["b"]]


def test_what_shares_no_word_with_a_query_is_in_no_ranking_of_bm25(tmp_path):
    """In a fusion such passages, which come in the order of their ids, would move those that a model found."""
    asked = Queries(["where is sand?", "who?"], ["qa", "qa"], ["a", "b", "c"])
    blocks = [(np.array([2, 0]), ["sand", "no"]), (np.array([1]), ["sand is here"])]
    assert asked.rank_bm25(blocks, 3).tolist() == [[2, 1, -1], [-1, -1, -1]]


def test_a_system_is_asked_the_same_once(store, tmp_path, monkeypatch):
    one, two = (str(shapes.make("bert", tmp_path / name)) for name in ("one", "two"))
    Path(two, "config.json").write_text(Path(two, "config.json").read_text() + "\n")
    first = go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": (one,)})
    scores = {row["query_id"]: row["scores"] for row in rows(store, "eval/heldout")}
    assert first.counters["partitions_built"] == 3, "vectors of the corpus, its rankings and their scores"
    ranked = []
    monkeypatch.setattr("pipeline_tasks.evaluation.systems.encoder_of_folder", partial(noted, ranked))
    both = go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": (one, two, f"rrf({one},bm25)", "bm25")})
    assert ranked == [two], "the first one's rankings are there, for the fusion, too"
    assert (both.counters["partitions_reused"], both.counters["partitions_built"]) == (2, 7)
    found = [row for row in rows(store, "eval/heldout") if row["system"] == one]
    assert {row["query_id"]: row["scores"] for row in found} == scores
    go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": (one,), "measures": ("recall@2",)})
    assert ranked == [two], "other measures ask no system again"
    put(store, PASSAGES, [{"passage_id": i, "text": text} for i, text in (TEXTS | {"p4": "hail"}).items()])
    go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": (one,)})
    assert ranked == [two, one], "another corpus"


def noted(told: list[str], name: str) -> Encoder:
    """The encoder of a folder, once that is written down."""
    told.append(name)
    return encoder_of_folder(name)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"systems": ("rrf()",)}, "cannot be read"),
        ({"systems": ("rrf(bm25,k=)",)}, "cannot be read"),
        ({"systems": ("bm25", "rrf(bm25,n)")}, "fuses 'n', which is not among the systems asked for \\(bm25"),
        ({"systems": ("nobody",)}, "nobody"),
        ({"systems": ("./nowhere",)}, "is no model's folder"),
        ({"systems": ("model/33m/pretrain",)}, "is a trained model: give it as the input `models`"),
        ({"measures": ("f1@10",)}, "'f1@10' is no measure"),
        ({"measures": ()}, "at least 1 item"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(store, values, message):
    with pytest.raises(InputError, match=message):
        evaluated(store, **values)


def test_vectors_of_other_weights_are_refused(store, monkeypatch):
    stored = Version.open(store, put(store, PASSAGE_EMBEDDINGS, [{"passage_id": "p1", "embedding": [1.0]}],
                                     dataset="embeddings/all-minilm-l6-v2"))  # fmt: skip
    stored.manifest.params["weights"] = {"name": "others"}
    with pytest.raises(InputError, match="has vectors of other weights of all-minilm-l6-v2 than run here"):
        list(_systems(Inputs({"embeddings": [stored]}), EvaluationParams(**ALONE)))
