"""Tuples by the margin of a reference model."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation import check_tuples_by_margin as module
from pipeline_tasks.curation.check_tuples_by_margin import check_tuples_by_margin, margins
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval import open_encoder
from pipeline_tasks.retrieval.encoder import Encoder
from tests.stores import go, put, rejects, rows

PARTS = ("instruction", "poisoned_instruction", "query", "poisoned_query")
ANSWERS = {"positive": (0, 2), "instruction_passage": (1, 2), "query_passage": (0, 3)}


def test_a_margin_is_what_lies_between_the_right_passage_and_the_nearest_other():
    random = np.random.default_rng(0)
    queries, passages = (v / np.linalg.norm(v, axis=2, keepdims=True) for v in random.normal(size=(2, 4, 3, 8)))
    for n, found in enumerate(margins(np.einsum("nqd,npd->nqp", queries, passages))):
        for k in range(3):
            scores = passages[n] @ queries[n, k]
            assert found[k] == pytest.approx(scores[k] - max(np.delete(scores, k)))


class Words(Encoder):
    """A dimension for each of a few words."""

    def _vectors(self, texts, prefixes, done):
        return np.array([[word in text for word in "abcd"] for text in texts], np.float32)


def opened(params, texts, run) -> Words:
    return Words("words", 4, Layout("mean", 8))


def test_only_what_is_told_apart_stays_and_poison_that_is_none_is_said_to_be(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    parts = dict(zip(PARTS, "abcd", strict=True))
    clean = {name: " ".join("abcd"[i] for i in places) for name, places in ANSWERS.items()}
    wrong = {"leaky": clean | {"positive": "a", "query_passage": "a c"}, "vague": clean | {"query_passage": "b d"}}
    facts = {"intent": "qa", "split": "train"} | parts
    tuples = {"clean": clean} | wrong
    given = [facts | of_tuple | {"query_id": name} for name, of_tuple in tuples.items()]
    put(store, TUPLES, given, dataset="tuples/poisoned")
    monkeypatch.setattr(module.CheckTuplesByMarginParams, "open", opened)
    go(store, check_tuples_by_margin, model="all-minilm-l6-v2", further=(), margin=0.1)
    assert [row["query_id"] for row in rows(store, "tuples/by-margin")] == ["clean"]
    found = rejects(store, "tuples/by-margin")
    assert {name: row["reason"] for name, row in found.items()} == {"leaky": "not_poison", "vague": "ambiguous"}
    assert found["vague"]["detail"].endswith("query_passage: 0.000")


def test_a_part_begins_with_the_models_that_are_loaded(tmp_path, monkeypatch):
    """Two stay loaded: in one order for all parts, of three none would be when its turn comes."""
    store, loads = LocalStore(tmp_path), []

    @lru_cache(maxsize=open_encoder._opened.cache_parameters()["maxsize"])
    def load(name: str) -> Words:
        loads.append(name)
        return Words(name, 4, Layout("mean", 8))

    monkeypatch.setattr(module.CheckTuplesByMarginParams, "open", lambda params, texts, run: load(params.model))
    texts = dict(zip(PARTS, "abcd", strict=True)) | {name: "a b" for name in ANSWERS}
    facts = {"intent": "qa", "split": "train"} | texts
    put(store, TUPLES, *([facts | {"query_id": f"q{n}"}] for n in range(4)), dataset="tuples/poisoned")
    go(store, check_tuples_by_margin, model=REFERENCE_MODELS[0], further=REFERENCE_MODELS[1:3])
    assert len(loads) == 3 + 3 * 1


@pytest.mark.parametrize(("by", "kept"), [("passage", ["clean", "leaky"]), ("sentence", ["clean"])])
def test_by_sentences_a_passage_that_says_what_the_positive_says_is_no_poison(tmp_path, monkeypatch, by, kept):
    """Half of it is about something else, so that as a whole it is farther from the question than the positive."""
    store = LocalStore(tmp_path)
    clean = {name: " ".join("abcd"[i] for i in places) for name, places in ANSWERS.items()}
    leaky = {"query_passage": f"{'z' * 20} a c. {'z' * 20} b d."}
    facts = {"intent": "qa", "split": "train"} | dict(zip(PARTS, "abcd", strict=True)) | clean
    put(
        store,
        TUPLES,
        [facts | {"query_id": "clean"}, facts | leaky | {"query_id": "leaky"}],
        dataset="tuples/poisoned",
    )
    monkeypatch.setattr(module.CheckTuplesByMarginParams, "open", opened)
    checked = go(store, check_tuples_by_margin, model="all-minilm-l6-v2", further=(), margin=0.1, by=by)
    assert [row["query_id"] for row in rows(store, "tuples/by-margin")] == kept
    assert {row["reason"] for row in rejects(store, "tuples/by-margin").values()} <= {"not_poison"}
    assert checked.counters["texts_encoded"] == 2 * 3 + 3 + (2 if by == "sentence" else 1)


def test_of_each_question_the_surest_model_counts_and_no_model_can_tell_a_copy(tmp_path, monkeypatch):
    """The first model takes the poisoned instruction for none, the second the poisoned query."""
    store = LocalStore(tmp_path)
    deaf = {"all-minilm-l6-v2": "bf", "bge-small-en-v1.5": "de"}

    def of_model(params, texts, run):
        class Deaf(Encoder):
            def _vectors(self, texts, prefixes, done):
                heard = [word for word in "abcdef" if word not in deaf[params.model]]
                return np.array([[word in text for word in heard] for text in texts], np.float32)

        return Deaf(params.model, 4, Layout("mean", 8))

    clean = {"positive": "a c", "instruction_passage": "b c e", "query_passage": "a d f"}
    copy = clean | {"query_passage": f"{'z' * 20} a d f. {'z' * 20} a c."}
    facts = {"intent": "qa", "split": "train"} | dict(zip(PARTS, "abcd", strict=True))
    given = [facts | clean | {"query_id": "clean"}, facts | copy | {"query_id": "copy"}]
    put(store, TUPLES, given, dataset="tuples/poisoned")
    monkeypatch.setattr(module.CheckTuplesByMarginParams, "open", of_model)
    first, second = deaf
    for model, further, kept in ((first, (), []), (second, (), []), (first, (second,), ["clean"])):
        made = go(store, check_tuples_by_margin, model=model, further=further)
        assert [row["query_id"] for row in rows(store, "tuples/by-margin")] == kept
    assert rejects(store, "tuples/by-margin")["copy"]["reason"] == "not_poison"
    assert made.counters["texts_encoded"] == 2 * (2 * 3 + 5)


def test_a_model_that_is_named_twice_is_refused(tmp_path):
    with pytest.raises(InputError, match="name each model once"):
        go(LocalStore(tmp_path), check_tuples_by_margin, model="all-minilm-l6-v2", further=("all-minilm-l6-v2",))


def test_a_precision_that_some_model_computes_in_is_part_of_the_id():
    def ids(**given: object) -> set[str]:
        precisions = ("float32", "bfloat16", "int8")
        return {canonical_json(check_tuples_by_margin.parse({"precision": p} | given).identity()) for p in precisions}

    exact, *others = REFERENCE_MODELS
    assert len(ids(model=exact, further=[])) == 1, "the model has one arithmetic"
    assert len(ids(model=exact, further=others)) == 3
    assert len(ids(model=others[0], further=[exact])) == 3
