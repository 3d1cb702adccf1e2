"""Alignment and uniformity against cases worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.geometry import geometry
from pipeline_tasks.evaluation.systems import encoder_of_folder
from tests import shapes
from tests.stores import go, put

EAST, NORTH, WEST = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


def measured(folder: Path, texts: dict[str, str], asked: dict[str, str], judged: dict[str, str]) -> float:
    """The alignment over nearest that an evaluation of a small random model counts."""
    store, model = LocalStore(folder / "store"), str(shapes.make("bert", folder / "model"))
    put(store, PASSAGES, [{"passage_id": name, "text": text} for name, text in texts.items()])
    rows = [{"query_id": i, "query": text, "passage_ids": [judged[i]], "grades": [1]} for i, text in asked.items()]
    put(store, JUDGED_QUERIES, [{"intent": "qa"} | row for row in rows], dataset="judged/heldout")
    made = go(store, evaluate_retriever, {"models": []}, size="", models=(), systems=(model,))
    return made.counters[f"normalised_alignment/{model}"]


def distances(folder: Path, queries: Iterable[str], passages: Iterable[str]) -> np.ndarray:
    """Squared ones of that model, [q, n]."""
    encoder = encoder_of_folder(str(folder / "model"))
    return 2 - 2 * encoder.encode_queries([*queries], None) @ encoder.encode_passages([*passages]).T


def test_alignment_is_the_mean_squared_distance_and_its_share_of_the_nearest_one():
    queries, passages = np.array([NORTH, [0.6, 0.8]]), np.array([EAST, NORTH, WEST])
    found = geometry(queries, np.array([1, 0]), passages, np.array([1.0, 0.8]))
    assert found.alignment == pytest.approx((0 + 0.8) / 2), "2 - 2 cos"
    assert found.normalised_alignment == pytest.approx((1 + 0.8 / 0.4) / 2), "the second's nearest is north, at 0.4"


def test_uniformity_is_that_of_all_pairs_of_different_passages():
    passages = np.array([EAST, NORTH, WEST])
    found = geometry(passages[:1], np.array([0]), passages, np.ones(1))
    assert found.uniformity == pytest.approx(-log((2 * exp(-2 * 2) + exp(-2 * 4)) / 3))
    gathered = np.array([EAST, EAST, [0.8, 0.6]])
    assert geometry(gathered[:1], np.array([0]), gathered, np.ones(1)).uniformity < found.uniformity


def test_nothing_has_no_geometry():
    with pytest.raises(InputError, match="0 queries and 2 passages"):
        geometry(np.zeros((0, 2)), np.zeros(0, int), np.array([EAST, NORTH]), np.zeros(0))


def test_the_nearest_passage_is_that_of_the_whole_corpus(tmp_path):
    texts = {f"p{n:04}": " ".join(words) for n, words in enumerate([*permutations(shapes.TOPICS[:15], 3)][:2600])}
    judged = {f"q{n}": f"p{n * 40:04}" for n in range(40)}
    asked = {name: " ".join(texts[passage].split()[:2]) for name, passage in judged.items()}
    share = measured(tmp_path, texts, asked, judged)
    found = distances(tmp_path, asked.values(), texts.values())
    own = found[range(40), range(0, 1600, 40)]
    assert share == pytest.approx((own / found.min(axis=1)).mean(), rel=1e-3)


def test_a_query_that_is_a_passage_is_not_nearest_to_itself(tmp_path):
    texts = {str(n): " ".join(words) for n, words in enumerate([*permutations(shapes.TOPICS[:4], 2)])}
    asked = {"0": texts["0"], "5": texts["5"], "q": "tb"}
    share = measured(tmp_path, texts, asked, {"0": "1", "5": "9", "q": "3"})
    found = distances(tmp_path, asked.values(), texts.values())
    own = found[range(3), [1, 9, 3]]
    found[[0, 1], [0, 5]] = np.inf
    assert share == pytest.approx((own / found.min(axis=1)).mean(), rel=1e-3)


def test_a_query_that_is_a_passage_word_for_word_has_no_share_of_no_distance():
    queries, passages = np.array([NORTH, [0.6, 0.8]]), np.array([EAST, NORTH, WEST])
    found = geometry(queries, np.array([0, 0]), passages, np.array([1.0, 0.8]))
    assert found.alignment == pytest.approx((2 + 0.8) / 2)
    assert found.normalised_alignment == pytest.approx((1 + 0.8 / 0.4) / 2)


def test_uniformity_is_that_of_drawn_passages_whichever_are_asked_for(monkeypatch):
    vectors = np.random.default_rng(1).normal(size=(400, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[:100] = vectors[0]
    whole = geometry(vectors[:100], np.arange(100), vectors, np.ones(100))
    monkeypatch.setattr("pipeline_tasks.evaluation.geometry._DRAWN", 200)
    found = geometry(vectors[:100], np.arange(100), vectors, np.ones(100))
    assert found.uniformity == pytest.approx(whole.uniformity, abs=0.1)
    assert found.alignment == whole.alignment
    assert found.uniformity == geometry(vectors[:1], np.array([399]), vectors, np.ones(1)).uniformity
