from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, commit, load_manifest, manifest_key
from pipeline_tasks.curation import score_triplets as module
from pipeline_tasks.curation.score_triplets import score_triplets
from pipeline_tasks.datasets import (
    INSTRUCTED_PAIRS,
    INSTRUCTED_TRIPLETS,
    PAIR_EMBEDDINGS,
    PASSAGE_EMBEDDINGS,
    TRIPLETS,
)
from tests.stores import go, put, rows

TEACHERS = {"one": 8, "two": 5}
BUILD = {
    "q1": ("p1", ["p2", "p3"], "one"),
    "q2": ("g2", ["p1"], "two"),
    "q3": ("p3", ["p2", "g1", "p1"], "one"),
}


@pytest.fixture
def vectors(tmp_path) -> tuple[LocalStore, dict[str, dict[str, np.ndarray]]]:
    """Triplets of three queries in two parts, and vectors of two teachers."""
    store, chance = LocalStore(tmp_path), np.random.default_rng(0)
    found: dict[str, dict[str, np.ndarray]] = {}
    for model, width in TEACHERS.items():
        of = {name: chance.normal(size=width) for name in ("q1", "q2", "q3", "g1", "g2", "g3", "p1", "p2", "p3")}
        found[model] = {name: (v / np.linalg.norm(v)).astype(np.float32) for name, v in of.items()}
        passages = [{"passage_id": name, "embedding": found[model][name]} for name in ("p1", "p2", "p3")]
        pairs = [
            {"query_id": f"q{i}", "query_embedding": found[model][f"q{i}"]}
            | {"positive_id": f"g{i}", "positive_embedding": found[model][f"g{i}"]}
            for i in (1, 2, 3)
        ]
        put(store, PASSAGE_EMBEDDINGS, passages[:1], passages[1:], dataset=f"embeddings/{model}")
        put(store, PAIR_EMBEDDINGS, pairs, dataset=f"query_embeddings/{model}")
    triplets = [
        {"query_id": name, "positive_id": positive, "negative_ids": negatives, "mining_model": model}
        | {"negatives": [f"text of {n}" for n in negatives], "positive": f"text of {positive}"}
        for name, (positive, negatives, model) in BUILD.items()
    ]
    put(store, TRIPLETS, triplets[:1], triplets[1:], dataset="mtt/0.95")
    return store, found


@pytest.mark.parametrize(("models", "at_once"), [(("one", "two"), 4096), (("two",), 4096), (("two", "one"), 1)])
def test_every_score_is_the_teachers_cosine(vectors, monkeypatch, models, at_once):
    store, of = vectors
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    outcome = go(store, score_triplets, models=models)
    found = {row["query_id"]: row for row in rows(store, "mtt/0.95-kd")}
    assert list(found) == list(BUILD) and outcome.counters["pairs_scored"] == 9
    assert not any((store.folder / "tmp").iterdir()), "files of vectors are as long as the call"
    for name, (positive, negatives, mining_model) in BUILD.items():
        row, teacher = found[name], mining_model if len(models) > 1 else models[0]
        query = of[teacher][name]
        assert (row["teacher"], row["negatives"]) == (teacher, [f"text of {n}" for n in negatives])
        assert row["teacher_positive_score"] == pytest.approx(float(query @ of[teacher][positive]), abs=1e-6)
        wanted = [float(query @ of[teacher][n]) for n in negatives]
        assert row["teacher_negative_scores"] == pytest.approx(wanted, abs=1e-6)


def test_a_query_is_scored_as_it_was_encoded_with_the_task_of_its_triplet(vectors):
    store, of = vectors
    own = {"instruction": "find the storm"}
    unlike = -of["one"]["q1"]
    tasks = put(store, INSTRUCTED_PAIRS, [{"query_id": "q1", **own}], dataset="mtp/fret")
    plain = put(store, INSTRUCTED_PAIRS, [{"query_id": name} for name in ("q1", "q2", "q3")], dataset="mtp")
    pairs = [{"query_id": "q1", "query_embedding": unlike, "positive_id": "g1", "positive_embedding": of["one"]["g1"]}]
    with_tasks = put(store, PAIR_EMBEDDINGS, pairs, dataset="query_embeddings/one", pairs=tasks)
    rest = [{"query_id": n, "query_embedding": of["one"][n], "positive_id": f"g{n[1]}"} for n in ("q1", "q3")]
    rest = [row | {"positive_embedding": of["one"][row["positive_id"]]} for row in rest]
    without = put(store, PAIR_EMBEDDINGS, rest, dataset="query_embeddings/one", pairs=plain)
    build = [
        {"query_id": name, "positive_id": "p1", "negative_ids": ["p2"], "mining_model": "bm25"} | told
        for name, told in (("q1", own), ("q3", {}))
    ]
    put(store, INSTRUCTED_TRIPLETS, build, dataset="mtt/fret")
    given = {"queries": [str(without), str(with_tasks)]}
    outcome = go(store, score_triplets, given, alpha="fret", models=("one",))
    assert outcome.ref is not None and outcome.ref.dataset == "mtt/fret-kd"
    found = {row["query_id"]: row for row in rows(store, "mtt/fret-kd")}
    assert [found[name]["instruction"] for name in ("q1", "q3")] == ["find the storm", None]
    for name, query in {"q1": unlike, "q3": of["one"]["q3"]}.items():
        assert found[name]["teacher_positive_score"] == pytest.approx(float(query @ of["one"]["p1"]), abs=1e-6)
    with pytest.raises(InputError, match=r"q1 is asked with 'find the storm'.*without an instr.*: run embed_pairs"):
        go(store, score_triplets, {"queries": [str(without)]}, alpha="fret", models=("one",))


def test_a_query_without_an_instruction_is_not_scored_as_one_that_has_some(vectors):
    store, of = vectors
    told = [{"query_id": name, "instruction": "find the opposite"} for name in ("q1", "q2", "q3")]
    instructed = put(store, INSTRUCTED_PAIRS, told, dataset="mtp/instructed")
    pairs = [
        {"query_id": f"q{i}", "query_embedding": -of["one"][f"q{i}"]}
        | {"positive_id": f"g{i}", "positive_embedding": of["one"][f"g{i}"]}
        for i in (1, 2, 3)
    ]
    put(store, PAIR_EMBEDDINGS, pairs, dataset="query_embeddings/one", pairs=instructed)
    with pytest.raises(InputError, match="q[13] is asked without an instruction, .* vector with 'find the opposite'"):
        go(store, score_triplets, models=("one",))
    plain = put(store, INSTRUCTED_PAIRS, [{"query_id": row["query_id"]} for row in told], dataset="mtp")
    put(store, PAIR_EMBEDDINGS, pairs[::-1], dataset="query_embeddings/one", pairs=plain)
    assert go(store, score_triplets, models=("one",)).counters["pairs_scored"] == 9


def test_a_query_that_a_teachers_later_vectors_leave_out_has_that_of_the_earlier_ones(vectors):
    store, of = vectors
    told = put(store, INSTRUCTED_PAIRS, [{"query_id": "q1", "intent": "qa", "instruction": "x"}], dataset="mtp")
    positive = {"positive_id": "g1", "positive_embedding": of["one"]["g1"]}
    earlier = Version.open(store, Ref.parse("query_embeddings/one")).manifest
    left_out = [{"query_id": "q1", "intent": "qa", "query_embedding": None} | positive]
    later = put(store, PAIR_EMBEDDINGS, left_out, dataset="query_embeddings/one", pairs=told)
    commit(
        store,
        limited := load_manifest(store, later).model_copy(update={"params": {"intents": ["sts"]}, "id": "0" * 16}),
    )
    given = {"queries": [str(earlier.ref), str(limited.ref)]}
    go(store, score_triplets, given, models=("one",))
    found = {row["query_id"]: row["teacher_positive_score"] for row in rows(store, "mtt/0.95-kd")}
    assert found["q1"] == pytest.approx(float(of["one"]["q1"] @ of["one"]["p1"]), abs=1e-6)
    with pytest.raises(InputError, match="have no vector of q1; embed what the build was made of"):
        go(store, score_triplets, {"queries": [str(limited.ref)]}, models=("one",))


def test_a_build_is_named_by_its_level_or_by_its_name():
    level = score_triplets.parse({"alpha": "0.95", "models": ["one"]})
    assert level.identity() == score_triplets.parse({"models": ["one"]}).identity()
    assert score_triplets.output(score_triplets.parse({"alpha": "own/topics"})) == "mtt/own/topics-kd"
    for wrong in ("1.5", "0", "../x"):
        with pytest.raises(InputError, match="alpha"):
            score_triplets.parse({"alpha": wrong})


def test_what_has_no_teacher_or_no_vector_is_the_callers_mistake(vectors):
    store, _ = vectors
    put(store, PASSAGE_EMBEDDINGS, [{"passage_id": "p1", "embedding": [1.0] * 8}], dataset="embeddings/one")
    with pytest.raises(InputError, match=r"embeddings/one@.* have no vector of p[23]"):
        go(store, score_triplets, models=("one",))
    broken = [{"passage_id": f"p{n}", "embedding": [float("nan")] * 8} for n in range(1, 9)]
    put(store, PASSAGE_EMBEDDINGS, broken, dataset="embeddings/one")
    with pytest.raises(InputError, match=r"embeddings/one@.* embedding: the vector of p\d holds NaN"):
        go(store, score_triplets, models=("one",))
    put(store, TRIPLETS, [{"query_id": "q1", "mining_model": "bm25"}], dataset="mtt/0.95")
    with pytest.raises(InputError, match="'bm25'"):
        go(store, score_triplets, models=("one", "two"))


def test_vectors_of_different_weights_are_no_teacher(vectors):
    store, _ = vectors
    for name, told in (("embeddings/one", "these"), ("query_embeddings/one", "those")):
        version = Version.open(store, Ref.parse(name))
        made = version.manifest.model_copy(update={"params": {"weights": told}})
        store.replace(manifest_key(made.ref), made.model_dump_json().encode())
    with pytest.raises(InputError, match="have vectors of different weights of one: encode one of them anew"):
        go(store, score_triplets, models=["one", "two"], alpha=0.95)
