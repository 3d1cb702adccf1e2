"""Tuples by the margin of a reference model."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation import check_tuples_by_margin as module
from pipeline_tasks.curation.check_tuples_by_margin import check_tuples_by_margin, margins
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.retrieval.encoder import Encoder
from tests.stores import go, put, rejects, rows

PARTS = ("instruction", "poisoned_instruction", "query", "poisoned_query")
ANSWERS = {"positive": (0, 2), "instruction_passage": (1, 2), "query_passage": (0, 3)}


def test_a_margin_is_what_lies_between_the_right_passage_and_the_nearest_other():
    random = np.random.default_rng(0)
    queries, passages = (v / np.linalg.norm(v, axis=2, keepdims=True) for v in random.normal(size=(2, 4, 3, 8)))
    for n, found in enumerate(margins(queries, passages)):
        for k in range(3):
            scores = passages[n] @ queries[n, k]
            assert found[k] == pytest.approx(scores[k] - max(np.delete(scores, k)))


class Words(Encoder):
    """A dimension for each of a few words."""

    def _vectors(self, texts, prefixes, done):
        return np.array([[word in text for word in "abcd"] for text in texts], np.float32)


def test_only_what_is_told_apart_stays_and_poison_that_is_none_is_said_to_be(tmp_path, monkeypatch):
    store = LocalStore(tmp_path)
    parts = dict(zip(PARTS, "abcd", strict=True))
    clean = {name: " ".join("abcd"[i] for i in places) for name, places in ANSWERS.items()}
    wrong = {"leaky": clean | {"positive": "a", "query_passage": "a c"}, "vague": clean | {"query_passage": "a c"}}
    facts = {"intent": "qa", "split": "train"} | parts
    tuples = {"clean": clean} | wrong
    given = [facts | of_tuple | {"query_id": name} for name, of_tuple in tuples.items()]
    put(store, TUPLES, given, dataset="tuples/poisoned")
    monkeypatch.setattr(
        module.CheckTuplesByMarginParams, "open", lambda self, texts, run: Words("words", 4, Layout("mean", 8))
    )
    go(store, check_tuples_by_margin, model="all-minilm-l6-v2", margin=0.1)
    assert [row["query_id"] for row in rows(store, "tuples/by-margin")] == ["clean"]
    found = rejects(store, "tuples/by-margin")
    assert {name: row["reason"] for name, row in found.items()} == {"leaky": "not_poison", "vague": "ambiguous"}
    assert found["vague"]["detail"].startswith("positive: 0.000")
